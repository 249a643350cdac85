// Renders a status on the operator's page.

import { setCommandOptions, showAdvice } from "./advice.js";
import { follow, make, tell } from "./keyed-elements.js";
import { element } from "./shell.js";
import { date, decimal, number, share, span, time } from "./formatting.js";

const BEHIND_S = 1;
const OLDEST_PENDING_S = 10;
const NAMES = { votes: "Votes", purchases: "Purchases", catalogue: "Catalogue", test: "Test environment" };

/** Explains a generation's state, with commands in backticks. */
const STATES = {
  building: (one) =>
    one.processed_per_s === 0 ? `makes no progress: \`tally replay run ${chosen(one)} --execute\` continues it` : "",
  following: () => "built and kept up to date; verify it, then swap it in",
  kept: (one) =>
    `the former one: \`tally replay rollback ${chosen(one)} --execute\` returns to it, ${given(one)} frees its memory`,
  side: (one) => `for inspection only: ${given(one)} drops it`,
  broken: (one) => `cannot process further records: ${given(one)} drops it`,
};

function chosen({ fold, scope }) {
  return scope && scope !== "*timeline" ? scope : `--projection ${scope ? "timeline" : fold}`;
}

function given({ fold, generation }) {
  return `\`tally replay drop --projection ${fold} --generation ${generation} --execute\``;
}

const COLUMNS = [
  ["Position", (row) => whole(row.position)],
  ["Log end", (row) => whole(row.end)],
  ["Lag", (row) => whole(row.lag), (row) => (row.position > row.end ? "bad" : "")],
  ["Behind", (row) => duration(row.lag_s), (row) => (row.lag_s > BEHIND_S ? "warn" : "")],
  ["Voting", gate, (row) => (gate(row).endsWith("paused") ? "bad" : "")],
  ["Pending", (row) => whole(row.pending), (row) => (row.oldest_pending_s > OLDEST_PENDING_S ? "warn" : "")],
  ["Quarantine", (row) => whole(row.quarantined), (row) => (row.quarantined ? "bad" : "")],
  ["Overruled", (row) => whole(row.overruled), (row) => (row.overruled ? "bad" : "")],
  ["Records/s", (row) => whole(row.processed_per_s)],
  ["Generation", (row) => whole(row.generation)],
  ["Last event", (row) => when(row.last_event)],
  ["Stalled since", stalled, (row) => (stalled(row) ? "bad" : "")],
];

/** Returns a title with its key, or the key alone. */
const titled = (title, key) => (title ? `${title} (${key})` : key);

/** Formats a number or rate, which may be missing. */
const whole = (value) => (value == null ? "" : number(Math.round(value)));

/** Formats seconds, with tenths below a minute. */
export const duration = (seconds) => (seconds < 60 ? `${seconds ? decimal(seconds) : 0} s` : span(1_000 * seconds));

/** Formats an RFC 3339 time, today's without the date. */
function when(text) {
  const at = Date.parse(text ?? "");
  if (Number.isNaN(at)) return "";
  return new Date(at).toDateString() === new Date().toDateString() ? time(at) : date(at);
}

/** Shows a status from `/operations/status`; with `everything` also partitions without problems. */
export function show(status, everything) {
  setCommandOptions(status.command_options);
  tell(element("version"), `Tallykeeper ${status.version}`);
  showProblems(status);
  follow(element("projections"), Object.entries(status.folds), ([fold]) => fold, madeFold, (card, [fold, rows]) =>
    showFold(card, rows, status.totals[fold]),
  );
  element("generations-panel").hidden = !status.generations.length;
  follow(
    element("generations"),
    status.generations,
    (one) => [one.fold, one.generation, one.scope],
    madeGeneration,
    showGeneration,
  );
  showPartitions(status, everything);
  showSealed(status.sealed);
}

function showProblems({ problems, folds, dependencies }) {
  const partitions = Object.values(folds).flat().length;
  const fine = `No problems: all ${partitions} partitions are up to date, votes are accepted, no records are quarantined.`;
  tell(element("fine"), fine);
  element("fine").hidden = problems.length > 0;
  follow(element("problems"), problems, (one) => `${one.kind} ${one.where}`, madeProblem, showProblem);
  follow(element("dependencies"), Object.entries(dependencies), ([name]) => name, () => make("li"), (item, [name, is]) => {
    item.className = `chip ${is === "ready" ? "good" : "bad"}`;
    tell(item, `${name}: ${is}`);
  });
  const spoken = problems.map(({ kind, where }) => `${where}: ${kind}`);
  tell(element("spoken"), spoken.length ? `Problems: ${spoken.join("; ")}` : fine);
}

function madeProblem() {
  return make("li", {}, make("strong"), " ", make("span"), " ", make("span", { className: "advice" }));
}

function showProblem(item, { where, detail, remedy }) {
  const [name, what, advice] = item.children;
  tell(name, `${where}:`);
  tell(what, `${detail}.`);
  showAdvice(advice, remedy);
}

function madeFold([fold]) {
  const head = make("div", { className: "head" }, make("h2", {}, NAMES[fold] ?? fold), make("span"));
  const strip = make("div", { className: "strip" });
  strip.setAttribute("aria-hidden", "true");
  return make("article", { className: "panel" }, head, make("p", { className: "lag" }), make("p", { className: "soft" }), strip);
}

function showFold(card, rows, total) {
  const [head, lag, rest, strip] = card.children;
  const worst = rows.map(level).sort((one, other) => LEVELS.indexOf(one) - LEVELS.indexOf(other))[0];
  head.children[1].className = `chip ${worst}`;
  const words = { bad: "needs attention", warn: `${duration(total.lag_s)} behind`, good: "up to date" };
  tell(head.children[1], words[worst]);
  lag.replaceChildren(number(total.lag), " ", make("small", {}, total.lag === 1 ? "record behind" : "records behind"));
  const said = [`${number(total.position)} of ${number(total.end)} processed`];
  if (total.processed_per_s) said.push(`${whole(total.processed_per_s)} a second`);
  if (total.pending != null) said.push(`${number(total.pending)} pending`);
  if (total.overruled) said.push(`${number(total.overruled)} overruled`);
  if (total.quarantined) said.push(`${number(total.quarantined)} in quarantine`);
  if (total.dropped) said.push(`${number(total.dropped)} dropped`);
  tell(rest, said.join(" · "));
  follow(strip, rows, (row) => row.partition, () => make("i"), (cell, row) => {
    cell.className = level(row);
    cell.title = `Partition ${row.partition}: ${number(row.lag)} records behind`;
  });
}

const LEVELS = ["bad", "warn", "good"];

/** Returns the worst level of a partition's values. */
function level(row) {
  const marks = COLUMNS.map(([, , mark]) => mark?.(row));
  if (row.schema !== row.code_schema || row.generations.some(({ state }) => state === "broken")) return "bad";
  return LEVELS.find((mark) => marks.includes(mark)) ?? "good";
}

function madeGeneration() {
  return make("li", {}, make("strong"), make("progress"), make("span"), make("span", { className: "soft" }));
}

function showGeneration(item, one) {
  const [title, bar, far, what] = item.children;
  const scope = one.scope === "*timeline" ? ", timeline" : one.scope ? `, contest ${titled(one.scope_title, one.scope)}` : "";
  tell(title, `${NAMES[one.fold] ?? one.projection}${scope}, generation ${one.generation}: ${one.state}`);
  bar.hidden = one.state !== "building";
  bar.max = Math.max(1, one.end);
  bar.value = one.processed;
  bar.setAttribute("aria-label", title.textContent);
  const said = [`${number(one.processed)} of ${number(one.end)} records (${share(one.processed, one.end)})`];
  said.push(one.partitions === 1 ? "1 partition" : `${one.partitions} partitions`);
  if (one.processed_per_s) said.push(`${whole(one.processed_per_s)} a second`);
  if (one.left_s != null) said.push(`${duration(one.left_s)} left`);
  tell(far, said.join(" · "));
  showAdvice(what, STATES[one.state](one));
}

function showPartitions(status, everything) {
  follow(element("columns"), ["Partition", ...COLUMNS.map(([name]) => name)], (name) => name, madeHead, () => {});
  const rows = Object.entries(status.folds).flatMap(([fold, partitions]) => [
    { fold, name: `${NAMES[fold] ?? fold}, all`, ...status.totals[fold], total: true },
    ...partitions
      .filter((row) => everything || level(row) !== "good")
      .map((row) => ({ fold, name: `${NAMES[fold] ?? fold} ${row.partition}`, ...row })),
  ]);
  follow(element("rows"), rows, (row) => row.name, madeRow, (line, row) =>
    COLUMNS.forEach(([, text, mark], at) => {
      const cell = line.children[at + 1];
      tell(cell, text(row));
      cell.className = `number ${mark?.(row) ?? ""}`;
    }),
  );
}

function madeHead(name) {
  return make("th", { scope: "col", className: name === "Partition" ? "" : "number" }, name);
}

function madeRow({ name, total }) {
  const cells = COLUMNS.map(() => make("td"));
  return make("tr", { className: total ? "total" : "" }, make("th", { scope: "row" }, name), ...cells);
}

function gate({ open, shut }) {
  if (shut != null) return shut ? `${shut} paused` : "open";
  return open == null ? "" : open ? "open" : "paused";
}

function stalled({ stalled_since: since, stalled: count }) {
  return since ? when(since) : count ? `${count} stalled` : "";
}

function showSealed(sealed) {
  tell(element("sealed-title"), `Sealed contests: ${sealed.length ? number(sealed.length) : "none"}`);
  const made = () => make("tr", {}, make("td"), make("td", { className: "number" }), make("td"), make("td", {}, make("code")));
  follow(element("sealed"), sealed, (one) => one.contest, made, (line, one) => {
    const [contest, closing, sealed, hash] = line.children;
    tell(contest, titled(one.title, one.contest));
    tell(closing, number(one.closing));
    tell(sealed, when(one.sealed_at));
    tell(hash.firstChild, one.sha256);
  });
}
