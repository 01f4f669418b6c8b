// Tables of fields.

/** Short words stay in one line; long names may break anywhere. */
function wordClass(text) {
  return text.length <= 24 ? 'short-cell' : 'word-cell';
}

/** What columns mean, behind a word. */
function meanings(columns, title) {
  const known = columns.filter((column) => column.description);
  if (known.length === 0) return null;
  return h('details', { class: 'meanings' }, h('summary', null, title || 'What the columns mean'),
    h('dl', null, known.map((column) => h('div', null, h('dt', null, fieldTitle(column)), h('dd', null, column.description)))));
}

function fieldTitle(field) {
  return field.title || field.id.replaceAll('_', ' ');
}

/** Names of threads: several behind their number, each in one piece. */
function threadNames(names, count) {
  const whole = (name) => h('span', { class: 'whole' }, name);
  if (count <= 1) return whole(names[0] || '-');
  const left = count - names.length;
  return h('details', { class: 'names' }, h('summary', null, `${grouped(count)} threads`),
    h('ul', null, names.map((name) => h('li', null, whole(name))), left > 0 ? h('li', null, `${grouped(left)} more`) : null));
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
  const countAt = fields.findIndex((field) => field.id === 'thread_count');
  const body = rows.map((row) => h('tr', null, columns.map((column, index) => {
    if (column.id === 'threads' && Array.isArray(row[at[index]])) {
      const names = row[at[index]];
      return h('td', null, threadNames(names, countAt < 0 ? names.length : row[countAt]));
    }
    const shown = text(column, row[at[index]]);
    return h('td', { class: isFigure(column) ? 'figure-cell' : wordClass(shown) }, shown);
  })));
  const table = h('table', null, caption ? h('caption', null, caption) : null,
    h('thead', null, h('tr', null, head)), h('tbody', null, body));
  return h('div', null, scrollable(caption || 'Table', table), meanings(columns));
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
  return h('div', null, h('dl', { class: 'facts' }, shown.map(([field, value]) => h('div', { title: field.description },
    h('dt', null, fieldTitle(field)), h('dd', null, valueText(field, value))))),
  meanings(shown.map(([field]) => field), 'What the figures mean'));
}

/** A box that scrolls what is too wide, by keyboard too. */
function scrollable(name, content) {
  return sideways(h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `${name}: table` }, content));
}
