// The source lines that lose most, with the text around them and the functions that call theirs.

function sourceParts(data) {
  const { fields, rows, texts } = data.sources;
  const lines = objects(fields, rows);
  if (lines.length === 0) return null;
  return section('Dearest source lines', 'sources',
    h('div', { class: 'sources' }, lines.map((line, at) => sourcePart(fields, line, texts[at]))),
    meanings(fields.filter((field) => field.id !== 'source')));
}

function sourcePart(fields, line, text) {
  const figure = (id) => valueText(fieldOf(fields, id), line[id]);
  const lost = line.run_share === undefined ? `${figure('lost_share')} of what lines lose`
    : `${figure('run_share')} of the run, ${figure('lost_cycles')} cycles`;
  const place = line.source.slice(line.source.lastIndexOf('/') + 1);
  return h('section', { class: 'source' },
    h('h3', null, h('code', null, place), ` ${line.function || ''}`),
    h('p', { class: 'note' }, `${lost}${place === line.source ? '' : `; ${line.source}`}`),
    text ? sourceText(place, text, Number(line.source.slice(line.source.lastIndexOf(':') + 1))) : null,
    line.callers.length > 0 ? h('p', null, 'Called by ', line.callers.map((name, at) => [at > 0 ? ', ' : '', h('code', null, name)]), '.') : null);
}

function sourceText(place, { first, lines }, number) {
  const digits = String(first + lines.length - 1).length;
  const rows = lines.map((text, at) => h('span', { class: first + at === number ? 'here' : null },
    `${String(first + at).padStart(digits)}  ${text}\n`));
  return sideways(h('pre', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Source at ${place}` }, rows));
}
