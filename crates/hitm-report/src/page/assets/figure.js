// The frame around each picture: title, controls, its table, and saving as SVG.

const figures = new Set();

/**
 * A picture. `draw(width)` returns an SVG element, `table()` an element with the same figures. Pictures are
 * drawn when they come into the page, and again when width or theme changes.
 */
function figure({ title, note, name, draw, table, controls }) {
  const id = freshId('figure');
  const tableId = `${id}-table`;
  const canvas = h('div', { class: 'canvas' });
  const tableBox = h('div', { class: 'behind', id: tableId, hidden: true });
  let isTableStale = true;
  const fillTable = () => {
    if (!isTableStale) return;
    isTableStale = false;
    tableBox.replaceChildren(table());
  };
  const toggle = h('button', {
    type: 'button', class: 'quiet', 'aria-expanded': 'false', 'aria-controls': tableId,
    click: () => {
      tableBox.hidden = !tableBox.hidden;
      toggle.setAttribute('aria-expanded', String(!tableBox.hidden));
      if (!tableBox.hidden) fillTable();
    },
  }, 'Table');
  const save = h('button', {
    type: 'button', class: 'quiet', 'data-save': name, click: () => saveSvg(canvas.querySelector('svg'), name),
  }, 'Save SVG');
  const heading = h('h3', { id }, title);
  const element = h('section', { class: 'figure', 'aria-labelledby': id },
    h('div', { class: 'figure-head' }, heading,
      h('div', { class: 'controls' }, controls || [], toggle, save)),
    note ? h('p', { class: 'note' }, note) : null, sidewaysCue(canvas), canvas, tableBox);
  const redraw = () => {
    if (!element.isConnected || canvas.clientWidth === 0) return;
    const svg = draw(canvas.clientWidth);
    canvas.replaceChildren(svg);
    isTableStale = true;
    if (!tableBox.hidden) fillTable();
  };
  const one = { element, redraw, setTitle: (text) => heading.replaceChildren(text) };
  figures.add(one);
  requestAnimationFrame(redraw);
  return one;
}

/** Draws all pictures of the page again. */
function redrawAll() {
  for (const one of figures) {
    if (one.element.isConnected) one.redraw();
  }
}

/** The root of a picture: its size, its name for screen readers, and the font of all its texts. */
function picture(width, height, label, children, role) {
  const rounded = [Math.max(1, Math.round(width)), Math.max(1, Math.ceil(height))];
  return s('svg', {
    xmlns: SVG_NAMESPACE, width: rounded[0], height: rounded[1], viewBox: `0 0 ${rounded.join(' ')}`,
    role: role || 'img', 'aria-label': label, 'font-family': SANS, 'font-size': 12,
  }, children);
}

/** A text of a picture. */
function label(x, y, text, attributes) {
  return s('text', { x, y, fill: plain('--text'), ...attributes }, text);
}

/** Swatches of a ramp and what the ends mean. */
function rampLegend(hue, largest, unit) {
  const swatches = [0, 0.25, 0.5, 1].map((share) => {
    const swatch = h('span', { class: 'swatch' });
    swatch.style.background = ramp(hue, share * share || 0).fill;
    return swatch;
  });
  return h('p', { class: 'legend' }, '0 ', swatches, ` ${typeof largest === 'number' ? grouped(largest) : largest} ${unit}`);
}

/** A picture of its own: tips become titles, and a background makes it readable anywhere. */
function saveSvg(svg, name) {
  const copy = svg.cloneNode(true);
  for (const owner of copy.querySelectorAll('[data-tip]')) {
    owner.prepend(s('title', null, owner.getAttribute('data-tip')));
    for (const attribute of ['data-tip', 'tabindex', 'role']) owner.removeAttribute(attribute);
  }
  copy.prepend(s('rect', { width: '100%', height: '100%', fill: plain('--page') }));
  const text = new XMLSerializer().serializeToString(copy);
  const url = URL.createObjectURL(new Blob([text], { type: 'image/svg+xml' }));
  const link = h('a', { href: url, download: `${name}.svg` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** A labelled choice. `options` are [value, text] or { group, options }. */
function choice(title, options, value, onChange) {
  const id = freshId('choice');
  const option = ([key, text]) => h('option', { value: key, selected: key === value }, text);
  const list = options.map((one) => (
    one.group ? h('optgroup', { label: one.group }, one.options.map(option)) : option(one)));
  const select = h('select', { id, change: () => onChange(select.value) }, list);
  return h('span', { class: 'choice' }, h('label', { for: id }, title), select);
}
