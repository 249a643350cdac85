// Colours of participants: the chosen one, or one by the number in the contest, independent of the
// rank.

const COLOURS = 12;
const CHOSEN = /^#?([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})$/i;

export const NO_COLOUR = "var(--series-none)";

/** Returns the participant's colour as a style sheet has it. */
export function colourOf({ color, number }) {
  const [, chosen] = CHOSEN.exec(color ?? "") ?? [];
  if (chosen) return `#${chosen}`;
  return Number.isFinite(number)
    ? `var(--series-${((number + COLOURS - 1) % COLOURS) + 1})`
    : NO_COLOUR;
}
