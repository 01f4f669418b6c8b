// Colours of pictures, from the style's variables: one place for both themes, readable ink on every fill.

/** Hues of quantities. Each ramp has one hue; letters and figures in the cells say the same without colour. */
const HUES = { reads: '--reads', writes: '--writes', locked: '--locked', hitm: '--hitm', lost: '--lost' };

/** A colour of the current theme as [red, green, blue]. */
function themed(variable) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

function css(rgb) {
  return `#${rgb.map((part) => Math.round(part).toString(16).padStart(2, '0')).join('')}`;
}

function mixed(from, to, share) {
  return from.map((part, at) => part + (to[at] - part) * share);
}

/** Relative luminance (WCAG 2.1). */
function luminance(rgb) {
  const linear = rgb.map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

function contrast(one, other) {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

/** Black or white, whichever is easier to read on a fill: one of them has a contrast of 4.58 or more. */
function inkOn(fill) {
  const [black, white] = [[0, 0, 0], [255, 255, 255]];
  return css(contrast(black, fill) >= contrast(white, fill) ? black : white);
}

/** Fill and ink for a part of the largest value, 0 to 1. The root spreads small values. */
function ramp(hue, share) {
  if (!(share > 0)) return { fill: css(themed('--cell')), ink: css(themed('--muted')) };
  const fill = mixed(themed('--cell'), themed(HUES[hue]), 0.14 + 0.86 * Math.sqrt(Math.min(1, share)));
  return { fill: css(fill), ink: inkOn(fill) };
}

/** A light tint of a hue and ink for it. */
function tint(hue, share) {
  const fill = mixed(themed('--cell'), themed(HUES[hue] || hue), share);
  return { fill: css(fill), ink: inkOn(fill) };
}

/** A plain colour of the theme. */
function plain(variable) {
  return css(themed(variable));
}
