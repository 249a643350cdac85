// Formats numbers and times for people, in the chosen language.

import { language, mark, t } from "./texts.js";

const numbers = (options) => new Intl.NumberFormat(language, options);
const whole = numbers();
const tenths = numbers({ minimumFractionDigits: 1, maximumFractionDigits: 1 });
const hundredths = numbers({ minimumFractionDigits: 2, maximumFractionDigits: 2 });
const clock = new Intl.DateTimeFormat(language, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
/** @type {Intl.DateTimeFormatOptions} */
const moment = {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
};
const day = new Intl.DateTimeFormat(language, {
  ...moment,
  year: "numeric",
  timeZoneName: "short",
});
const until = new Intl.DateTimeFormat(language, { ...moment, timeZoneName: "short" });

const VOTES = {
  name: mark("Votes"),
  one: mark("{n} vote"),
  many: mark("{n} votes"),
  rate: mark("Votes per second"),
};
const KINDS = {
  rating: {
    name: mark("Ratings"),
    one: mark("{n} rating"),
    many: mark("{n} ratings"),
    rate: mark("Ratings per second"),
  },
  ordering: {
    name: mark("Points"),
    one: mark("{n} point"),
    many: mark("{n} points"),
    rate: mark("Points per second"),
  },
};

/** Returns the texts for a contest's counts, by its type. */
export const units = (type) => KINDS[type] ?? VOTES;

export const PHASES = {
  setup: mark("In setup"),
  announced: mark("Announced"),
  running: mark("Running"),
  finished: mark("Finished"),
};

export const number = (value) => whole.format(value);
export const decimal = (value) => tenths.format(value);
export const precise = (value) => hundredths.format(value);
export const share = (part, of) => `${tenths.format(of > 0 ? (100 * part) / of : 0)} %`;
export const plural = (value, { one, many }) => t(value === 1 ? one : many, { n: number(value) });
export const ballots = (value) =>
  plural(value, { one: mark("{n} ballot"), many: mark("{n} ballots") });
export const time = (ms) => clock.format(ms);
/** Formats a date with its time and time zone; `dateShort` without the year. */
export const date = (ms) => day.format(ms);
export const dateShort = (ms) => until.format(ms);
export const zone = () =>
  until.formatToParts(Date.now()).find((part) => part.type === "timeZoneName")?.value ?? "";

/** Formats numbers briefly, with as many digits as keep different ones different. */
export function compact(values) {
  for (let digits = 0; digits < 4; digits += 1) {
    const short = numbers({ notation: "compact", maximumFractionDigits: digits });
    const texts = values.map((value) => short.format(value));
    if (new Set(texts).size === texts.length) return texts;
  }
  return values.map(number);
}

/** Formats a duration as briefly as possible: "2 d 3 h", "12:04". */
export function span(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const [days, hours, minutes] = [
    Math.floor(seconds / 86400),
    Math.floor(seconds / 3600) % 24,
    Math.floor(seconds / 60) % 60,
  ];
  const two = (value) => String(value).padStart(2, "0");
  if (days > 0) return t("{days} d {hours} h", { days, hours });
  if (hours > 0) return `${hours}:${two(minutes)}:${two(seconds % 60)}`;
  return `${minutes}:${two(seconds % 60)}`;
}

/** Formats the approximate time since then. */
export function ago(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 2) return t("just now");
  if (seconds < 60) return t("{n} s ago", { n: seconds });
  if (seconds < 3600) return t("{n} min ago", { n: Math.floor(seconds / 60) });
  return t("{span} ago", { span: span(ms) });
}

/** Returns two letters for a participant without a picture. */
export function initials(name) {
  const words = name.split(/[\s-]+/u).filter((word) => /^[\p{L}\p{N}]/u.test(word));
  const letters =
    words.length > 1
      ? [words[0], words.at(-1)].map((word) => [...word][0])
      : [...(words[0] ?? "?")].slice(0, 2);
  return letters.join("").toUpperCase();
}
