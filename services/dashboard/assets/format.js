// Numbers, durations and times as people read them.

const UNITS = [["d", 86_400], ["h", 3_600], ["m", 60], ["s", 1]];

/** 12345.6 as "12,346"; nothing for null. */
export const number = (value) => (value == null ? "" : Math.round(value).toLocaleString("en"));

/** Seconds in the largest unit and the next smaller one: "3.2 s", "4m10s". */
export function duration(seconds) {
  if (seconds < 60) return `${seconds ? seconds.toFixed(1) : 0} s`;
  const at = UNITS.findIndex(([, size]) => seconds >= size);
  const [unit, size] = UNITS[at];
  const [smaller, rest] = UNITS[at + 1];
  return `${Math.floor(seconds / size)}${unit}${String(Math.floor((seconds % size) / rest)).padStart(2, "0")}${smaller}`;
}

/** An RFC 3339 time as one of this place: today's without its day. */
export function time(text) {
  if (!text) return "";
  const when = new Date(text);
  const today = when.toDateString() === new Date().toDateString();
  return today ? when.toLocaleTimeString("en-GB") : when.toLocaleString("en-GB");
}
