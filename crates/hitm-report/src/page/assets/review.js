// Two builds of structures: members by cache line before and after, what each line costs, what gets worse.

const REVIEW_FACTS = ['size_before_bytes', 'size_after_bytes', 'line_count_before', 'line_count_after', 'hole_count_before',
  'hole_count_after', 'hole_before_bytes', 'hole_after_bytes', 'padding_before_bytes', 'padding_after_bytes'];
const REVIEW_COSTS = ['machine', 'cycles_before', 'cycles_after', 'cycles_change', 'stall_cycles_before', 'stall_cycles_after',
  'transfer_count_before', 'transfer_count_after', 'cpu_count', 'folded_cpu_count', 'confidence'];

/** The page of `hitm review`. */
function reviewPage(data) {
  const review = objects(data.review.fields, data.review.rows)[0];
  const profile = review.profile ? `Priced by the profile ${review.profile}.` : 'Without a profile: no costs.';
  const differ = review.changed_count === 0 ? 'Nothing differs.'
    : `Layouts that differ: ${grouped(review.changed_count)} of ${grouped(review.compared_count)}.`;
  const only = [['only_before_count', review.before], ['only_after_count', review.after]]
    .filter(([id]) => review[id] > 0).map(([id, build]) => `Types that only ${build} has: ${grouped(review[id])}.`);
  const left = review.left_out.length > 0 ? [`Left out, name them with --type: ${review.left_out.join(', ')}.`] : [];
  return [
    pageHead(data.title, `${differ} ${profile}`),
    notes([...only, ...left]),
    ...data.types.map((type, at) => reviewOf(type, at)),
  ];
}

/** One changed type. */
function reviewOf(type, at) {
  const facts = objects(type.type.fields, type.type.rows)[0];
  const worse = objects(type.worse.fields, type.worse.rows);
  const unmatched = objects(type.unmatched.fields, type.unmatched.rows);
  const renamed = objects(type.renamed.fields, type.renamed.rows);
  const costs = objects(type.costs.fields, type.costs.rows);
  const name = `hitm-review-${at + 1}`;
  return section(type.name, name,
    facts.unpriced ? h('p', { class: 'note' }, `No costs: ${facts.unpriced}.`) : h('p', null, costSentence(costs)),
    notes([...unmatched.map((one) => `No place: ${one.words}.`), ...renamed.map((one) => `Renamed: ${one.words}.`)]),
    worse.length === 0 && unmatched.length > 0 ? null : h('section', { class: 'figure' }, h('h3', null, 'What gets worse'),
      worse.length === 0 ? h('p', null, 'Nothing gets worse.')
        : h('ul', { class: 'reasons' }, worse.map((one) => h('li', null, `${one.words}.`)))),
    reviewLayout(type, facts, costs, name),
    costs.length === 0 ? null : [
      barChart({ tables: [type.costs], labels: ['before', 'after'] }, {
        title: 'Cost on each machine', name: `${name}-costs`, table: 0, rows: 'machine', columns: ['cycles_before', 'cycles_after'],
      }),
      fieldTable(type.costs.fields, type.costs.rows, { caption: 'Cost on each machine', only: REVIEW_COSTS }),
    ],
    type.coverage ? confidence(type.coverage) : null,
    h('section', { class: 'figure' }, h('h3', null, 'Memory'), fieldList(type.type.fields, type.type.rows[0], { only: REVIEW_FACTS })),
    costs.length === 0 ? null : h('div', { class: 'tall' }, fieldTable(type.lines.fields, type.lines.rows, { caption: 'Touched lines' })),
    h('div', { class: 'tall' }, fieldTable(type.members.fields, type.members.rows, { caption: 'Members' })));
}

/** On how many machines the type costs less, the same and more. */
function costSentence(costs) {
  const text = costs.map((cost) => {
    const change = cost.cycles_change === null ? 'no cost before' : `${cost.cycles_change > 0 ? '+' : ''}${(cost.cycles_change * 100).toFixed(1)}%`;
    return `${cost.machine} ${change}`;
  });
  return `Cost of the profile's accesses: ${text.join(', ')}.`;
}

/** Both layouts, line by line; the machine is a choice. */
function reviewLayout(type, facts, costs, name) {
  const members = objects(type.members.fields, type.members.rows);
  const lines = objects(type.lines.fields, type.lines.rows);
  let machine = costs.length > 0 ? costs[0].machine : null;
  const sides = () => ['before', 'after'].map((layout) => {
    const places = members.filter((member) => member[`offset_${layout}_bytes`] !== null).map((member) => ({
      name: member.member, offset_bytes: member[`offset_${layout}_bytes`], size_bytes: member[`size_${layout}_bytes`], change: member.change,
    }));
    const cost = costs.find((one) => one.machine === machine);
    const touched = lines.filter((line) => line.machine === machine && line.layout === layout);
    return {
      title: layout, members: places, size: facts[`size_${layout}_bytes`], lines: shownLines(places, touched),
      weighed: cost ? { cycles: cost[`cycles_${layout}`], per_line: touched } : null,
    };
  });
  const pick = costs.length > 1 ? [choice('Machine', costs.map((cost) => [cost.machine, cost.machine]), machine, (value) => {
    machine = value;
    one.redraw();
  })] : [];
  const note = costs.length > 0 ? 'Members by cache line. Blue ones have moved; dashed ones are not touched on their line.'
    : 'Members by cache line. Blue ones have moved.';
  const one = layoutFigure(`Layout of ${type.name}: before and after`, `${name}-layout`, sides, note, pick);
  return one.element;
}

/** Lines that are touched, and those in which members begin or end that lie elsewhere. */
function shownLines(members, touched) {
  const shown = new Set(touched.map((line) => line.line));
  const end = (member) => member.offset_bytes + Math.max(1, member.size_bytes) - 1;
  for (const member of members.filter((one) => one.change !== 'same')) {
    shown.add(Math.floor(member.offset_bytes / 64));
    shown.add(Math.floor(end(member) / 64));
  }
  return shown;
}

/** What the profile knows, and what it does not. */
function confidence(coverage) {
  const known = objects(coverage.fields, coverage.rows)[0];
  const sentences = [...known.notes];
  const add = (members, text) => members.length > 0 && sentences.push(`${text}: ${members.join(', ')}.`);
  add(known.unknown_members, 'The profile does not know these members; they cost nothing wherever they are');
  add(known.lacking_before, 'The old layout lacks these members of the profile, and its cost their accesses');
  add(known.lacking_after, 'The new layout lacks these members of the profile, and its cost their accesses');
  return h('section', { class: 'figure' }, h('h3', null, 'Confidence'),
    h('p', null, `${grouped(known.access_count)} accesses are ${known.counted}; functions: ${grouped(known.function_count)}, CPUs: ${grouped(known.cpu_count)} (${known.source}).`),
    sentences.length === 0 ? null : h('ul', { class: 'reasons' }, sentences.map((text) => h('li', null, text))));
}
