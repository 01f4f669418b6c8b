// Elements. Texts come from recordings and are hostile: they become text nodes and attributes, never markup.

const SVG_NAMESPACE = 'http://www.w3.org/2000/svg';

/** Sets attributes and listeners and appends children; null children and attributes are left out. */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** An HTML element. */
function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element. */
function s(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG_NAMESPACE, tag), attributes, children);
}

let lastId = 0;

/** An id that no other element of the page has. */
function freshId(prefix) {
  lastId += 1;
  return `${prefix}-${lastId}`;
}

const ruler = document.createElement('canvas').getContext('2d');
const MONO = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
const SANS = 'system-ui, "Segoe UI", "DejaVu Sans", Roboto, Arial, sans-serif';

/** Width of a text in pixels. */
function widthOf(text, size, family) {
  ruler.font = `${size}px ${family || SANS}`;
  return ruler.measureText(text).width;
}

/** The text if it fits; else its end behind two dots, from a separator of members or paths on where one fits. */
function shortened(text, width, size, family) {
  if (widthOf(text, size, family) <= width) return text;
  const parts = [...text.matchAll(/[.\[/:]+(?=[^.\[/:])/g)].map((match) => match.index);
  for (const at of parts.filter((index) => index > 0)) {
    const tail = `..${text.slice(at).replace(/^\.+/, '')}`;
    if (widthOf(tail, size, family) <= width) return tail;
  }
  return null;
}

/** The text if it fits; else its beginning, to the last whole character. */
function clipped(text, width, size, family) {
  if (widthOf(text, size, family) <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (widthOf(`${text.slice(0, middle)}…`, size, family) <= width) low = middle;
    else high = middle - 1;
  }
  return low > 2 ? `${text.slice(0, low)}…` : '';
}

/** A name that breaks behind its separators first. */
function breakable(text) {
  return text.split(/(?<=[._:/,>])(?=[A-Za-z0-9])/).map((part, at) => [at > 0 ? h('wbr') : null, part]);
}

/** Words below a box that scrolls sideways; they stand as long as something of it is cut off, and so does a shade. */
function sidewaysCue(box) {
  const cue = h('p', { class: 'cue', hidden: true }, 'Scroll sideways for the rest.');
  const update = () => {
    const rest = box.scrollWidth - box.clientWidth - box.scrollLeft;
    cue.hidden = box.scrollWidth <= box.clientWidth + 1;
    box.classList.toggle('cut-right', rest > 1);
    box.classList.toggle('cut-left', box.scrollLeft > 1);
  };
  box.addEventListener('scroll', update, { passive: true });
  const observer = new ResizeObserver(update);
  const observe = () => [...box.children].forEach((child) => observer.observe(child));
  new MutationObserver(observe).observe(box, { childList: true });
  observer.observe(box);
  observe();
  return cue;
}

/** A box that scrolls sideways, with its cue. */
function sideways(box) {
  return h('div', null, box, sidewaysCue(box));
}

/** Shows a tip beside whatever has `data-tip`, under the pointer or with the focus. */
function installTips() {
  const tip = h('div', { class: 'tip', 'aria-hidden': 'true' });
  document.body.append(tip);
  const show = (event) => {
    const owner = event.target instanceof Element ? event.target.closest('[data-tip]') : null;
    tip.classList.toggle('shown', owner !== null);
    if (owner === null) return;
    tip.textContent = owner.getAttribute('data-tip');
    const box = owner.getBoundingClientRect();
    const x = event.clientX === undefined ? box.left : event.clientX;
    const y = event.clientY === undefined ? box.bottom : event.clientY;
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    const isBelow = y + 16 + tip.offsetHeight < window.innerHeight;
    tip.style.left = `${Math.max(8, Math.min(x + 12, room))}px`;
    tip.style.top = `${isBelow ? y + 16 : Math.max(8, y - tip.offsetHeight - 12)}px`;
  };
  const hide = () => tip.classList.remove('shown');
  document.addEventListener('pointermove', show);
  document.addEventListener('focusin', show);
  document.addEventListener('keydown', (event) => event.key === 'Escape' && hide());
  document.addEventListener('scroll', hide, { passive: true });
}
