// The page: reads its data, builds itself, and follows the theme, the width and the printer.

const THEMES = ['auto', 'light', 'dark'];
const SYSTEM_DARK = matchMedia('(prefers-color-scheme: dark)');
let chosenTheme = 'auto';

/** A heading and the choice of theme, which the browser keeps where it may. */
function pageHead(title, subtitle) {
  const kept = remembered('hitm-theme');
  chosenTheme = THEMES.includes(kept) ? kept : 'auto';
  showTheme(chosenTheme);
  return h('header', { class: 'page-head' },
    h('div', null, h('h1', null, title), h('p', { class: 'subtitle' }, subtitle)),
    choice('Theme', [['auto', 'as the system'], ['light', 'light'], ['dark', 'dark']], chosenTheme, (value) => {
      remember('hitm-theme', value);
      chosenTheme = value;
      showTheme(value);
      redrawAll();
    }));
}

/** Storage may be forbidden for files. */
function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // The next page starts with the system's theme.
  }
}

/** The style sheet knows light and dark only. */
function showTheme(theme) {
  const system = SYSTEM_DARK.matches ? 'dark' : 'light';
  document.documentElement.dataset.theme = theme === 'auto' ? system : theme;
}

/** Paper is light. */
function installPrinting() {
  const show = (theme) => () => {
    showTheme(theme());
    redrawAll();
  };
  window.addEventListener('beforeprint', show(() => 'light'));
  window.addEventListener('afterprint', show(() => chosenTheme));
}

function installRedrawing() {
  let width = document.documentElement.clientWidth;
  let timer = 0;
  window.addEventListener('resize', () => {
    if (document.documentElement.clientWidth === width) return;
    width = document.documentElement.clientWidth;
    clearTimeout(timer);
    timer = setTimeout(redrawAll, 60);
  });
  SYSTEM_DARK.addEventListener('change', () => {
    showTheme(chosenTheme);
    redrawAll();
  });
}

const PAGES = { report: reportPage, comparison: comparisonPage, sweep: sweepPage, simulation: simulationPage, review: reviewPage };

function start() {
  const data = JSON.parse(document.getElementById('data').textContent);
  readWords(data.glossary);
  const content = PAGES[data.kind](data).filter(Boolean);
  content.push(wordsPart(data.glossary));
  const [head, ...parts] = content;
  document.body.append(head, h('main', null, parts),
    h('footer', null, 'Made by hitm. This file asks for nothing from a network.'));
  installTips();
  installPrinting();
  installRedrawing();
  followAddress();
  window.addEventListener('hashchange', followAddress);
  requestAnimationFrame(() => {
    document.documentElement.dataset.ready = 'yes';
    performance.mark('hitm-drawn');
  });
}

start();
