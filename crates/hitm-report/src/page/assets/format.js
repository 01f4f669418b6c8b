// Figures in the manner of their units, as the text report has them.

/** 1234567 as 1,234,567. */
function grouped(number) {
  return String(Math.round(number)).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/** Numbers from ten thousand on with three digits and a suffix. */
function compact(number) {
  const suffixes = ['', 'k', 'M', 'G', 'T', 'P', 'E'];
  if (number < 10000) return grouped(number);
  let value = number;
  let step = 0;
  while (value >= 999.5 && step + 1 < suffixes.length) {
    value /= 1000;
    step += 1;
  }
  const decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return value.toFixed(decimals) + suffixes[step];
}

/** A sentence's beginning. */
function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Ascending numbers as 0-3,5. */
function ranges(numbers) {
  const parts = [];
  for (const number of numbers) {
    const last = parts[parts.length - 1];
    if (last && last[1] + 1 === number) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(',');
}

/** A value of a field as text. */
function valueText(field, value) {
  if (value === null || value === undefined) return '-';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) {
    return value.every((one) => typeof one === 'number') ? ranges(value) : value.join(', ');
  }
  if (typeof value === 'string') return value;
  switch (field.unit) {
    case 'share':
      return `${(value * 100).toFixed(1)}%`;
    case 'offset':
      return `0x${value.toString(16)}`;
    case 'khz':
      return `${value / 1e6} GHz`;
    case 'ns':
      return timeText(value);
    case 'decimal':
      return value.toFixed(2);
    case 'none':
      return String(value);
    default:
      return grouped(value);
  }
}

/** Nanoseconds in the unit that fits. */
function timeText(nanos) {
  for (const [unit, scale] of [['s', 1e9], ['ms', 1e6], ['us', 1e3]]) {
    if (nanos >= scale) return `${(nanos / scale).toFixed(nanos / scale < 10 ? 2 : 1)} ${unit}`;
  }
  return `${Math.round(nanos)} ns`;
}

/** True if values of a field are figures, which stand at the right of a column. */
function isFigure(field) {
  return field.unit !== 'none' && field.unit !== 'address';
}

/** A table's rows as objects by field id. */
function objects(fields, rows) {
  return rows.map((row) => Object.fromEntries(fields.map((field, at) => [field.id, row[at]])));
}

/** A field by its id; undefined where the data leaves it out. */
function fieldOf(fields, id) {
  return fields.find((field) => field.id === id);
}
