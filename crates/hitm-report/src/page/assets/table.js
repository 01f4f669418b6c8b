// Tables of fields.

/** Short words stay in one line; long names may break anywhere. */
function wordClass(text) {
  return text.length <= 24 ? 'short-cell' : 'word-cell';
}

/** A table of rows as the data has them. `only` picks and orders columns by id. */
function fieldTable(fields, rows, { caption, only, listsByRun } = {}) {
  const columns = only ? only.map((id) => fieldOf(fields, id)).filter(Boolean) : fields;
  const at = columns.map((column) => fields.indexOf(column));
  // Figures of several runs stand in one cell, the first run first.
  const text = (column, value) => (
    listsByRun && Array.isArray(value) ? value.map(grouped).join(' / ') : valueText(column, value));
  const head = columns.map((column) => h('th', {
    scope: 'col', class: isFigure(column) ? 'figure-cell' : null, title: column.description,
  }, column.title || column.id));
  const body = rows.map((row) => h('tr', null, columns.map((column, index) => {
    const shown = text(column, row[at[index]]);
    return h('td', { class: isFigure(column) ? 'figure-cell' : wordClass(shown) }, shown);
  })));
  return scrollable(caption || 'Table', h('table', null, caption ? h('caption', null, caption) : null,
    h('thead', null, h('tr', null, head)), h('tbody', null, body)));
}

/** A table of any texts: `head` are [text, isFigure]. */
function textTable(caption, head, rows) {
  const cell = (text, at) => h('td', { class: head[at][1] ? 'figure-cell' : wordClass(String(text)) }, text);
  return scrollable(caption, h('table', null, h('caption', null, caption),
    h('thead', null, h('tr', null, head.map(([text, isRight]) => (
      h('th', { scope: 'col', class: isRight ? 'figure-cell' : null, title: meaningOf(text) }, text))))),
    h('tbody', null, rows.map((row) => h('tr', null, row.map(cell))))));
}

/** One item as a list of its fields. */
function fieldList(fields, row, { only, without } = {}) {
  const shown = fields.map((field, at) => [field, row[at]])
    .filter(([field]) => (only ? only.includes(field.id) : !(without || []).includes(field.id)));
  return h('dl', { class: 'facts' }, shown.map(([field, value]) => h('div', { title: field.description },
    h('dt', null, field.title || field.id.replaceAll('_', ' ')), h('dd', null, valueText(field, value)))));
}

/** A box that scrolls what is too wide, by keyboard too. */
function scrollable(name, content) {
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `${name}: table` }, content);
}
