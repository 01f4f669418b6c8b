// The summary and the findings as Markdown, for a bug or a mail.

/** Text without a meaning of its own in Markdown. */
function markdownText(text) {
  return String(text).replace(/[\\`*_|<>[\]~#]/g, '\\$&').replaceAll('\n', ' ');
}

function markdownRow(cells) {
  return `| ${cells.join(' | ')} |`;
}

/** The sentences, then the table of findings. */
function reportMarkdown(data) {
  const lines = objects(data.pictures.summary.fields, data.pictures.summary.rows);
  const sentences = lines.map((line) => (
    `- **${line.label}**: ${line.is_command ? `\`${line.text}\`` : markdownText(line.text)}`));
  const findings = findingsOf(data.report.findings);
  const parts = [`## ${markdownText(data.title)}`, sentences.join('\n')];
  if (findings.length > 0) {
    const columns = findingColumns(data);
    const [large, small] = largeFindings(findings);
    parts.push([
      markdownRow(columns.map((column) => markdownText(findingTitle(data, column)))),
      markdownRow(columns.map((column) => (isFigure(column) ? '--:' : '---'))),
      ...large.map((finding) => markdownRow(columns.map((column) => markdownText(valueText(column, finding[column.id]))))),
    ].join('\n'));
    if (small.length > 0) parts.push(`${smallText(small)}.`);
  }
  return `${parts.join('\n\n')}\n`;
}
