// The words of a page: their wordMeanings are in its data.

/** Meanings by word, in lower case. */
const wordMeanings = new Map();

function readWords(glossary) {
  const terms = glossary.flatMap((group) => group.terms);
  for (const term of terms) [term.name, ...term.also].forEach((word) => wordMeanings.set(word.toLowerCase(), term.meaning));
}

/** The meaning of a word; none for a word that the data has not. */
function meaningOf(word) {
  return wordMeanings.get(word.toLowerCase());
}

/** All words by subject, closed. */
function wordsPart(glossary) {
  const groups = glossary.map((group) => h('details', null, h('summary', null, group.title),
    h('dl', { class: 'words' }, group.terms.map((term) => h('div', null, h('dt', null, term.name), h('dd', null, term.meaning))))));
  return section('Words', 'words', groups);
}
