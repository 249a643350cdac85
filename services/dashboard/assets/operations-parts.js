// What the operator's page shows of a status.

import { duration, number, time } from "./format.js";
import { follow, make, tell } from "./keyed.js";
import { element } from "./shell.js";

const BEHIND_S = 1;
const OLDEST_PENDING_S = 10;
const NAMES = { votes: "Votes", purchases: "Purchases", catalogue: "Catalogue", test: "Test world" };

/** What a generation in this state is; commands in backticks. */
const STATES = {
  building: () => "being built",
  following: () => "built: it goes on being folded, and waits to be verified and swapped in",
  kept: ({ fold }) =>
    `what was read before: \`tally replay rollback --projection ${fold} --execute\` has it read again, ` +
    `\`tally replay drop --projection ${fold} --execute\` gives its memory back`,
  side: ({ fold }) => `for looking only: \`tally replay drop --projection ${fold} --execute\` gives it up`,
  broken: () => "cannot be folded any further",
};

const COLUMNS = [
  ["Position", (row) => number(row.position)],
  ["Log end", (row) => number(row.end)],
  ["Lag", (row) => number(row.lag), (row) => (row.position > row.end ? "bad" : "")],
  ["Behind", (row) => duration(row.lag_s), (row) => (row.lag_s > BEHIND_S ? "warn" : "")],
  ["Gate", gate, (row) => (gate(row).endsWith("shut") ? "bad" : "")],
  ["Pending", (row) => number(row.pending), (row) => (row.oldest_pending_s > OLDEST_PENDING_S ? "warn" : "")],
  ["Quarantine", (row) => number(row.quarantined), (row) => (row.quarantined ? "bad" : "")],
  ["Overruled", (row) => number(row.overruled), (row) => (row.overruled ? "bad" : "")],
  ["Records/s", (row) => number(row.folded_per_s)],
  ["Generation", (row) => number(row.generation)],
  ["Last event", (row) => time(row.last_event)],
  ["Stalled since", stalled, (row) => (stalled(row) ? "bad" : "")],
];

/** Shows a status as `/operations/status` answers it; with `everything` also partitions that keep up. */
export function show(status, everything) {
  tell(element("version"), `Tallykeeper ${status.version}`);
  showProblems(status);
  follow(element("folds"), Object.entries(status.folds), ([fold]) => fold, madeFold, (card, [fold, rows]) =>
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
  const fine = `Everything is fine: all ${partitions} partitions keep up, votes are taken, nothing is set aside.`;
  tell(element("fine"), fine);
  element("fine").hidden = problems.length > 0;
  follow(element("problems"), problems, (one) => `${one.kind} ${one.where}`, madeProblem, showProblem);
  follow(element("dependencies"), Object.entries(dependencies), ([name]) => name, () => make("li"), (item, [name, is]) => {
    item.className = `chip ${is === "ready" ? "good" : "bad"}`;
    tell(item, `${name}: ${is}`);
  });
  const spoken = problems.map(({ kind, where }) => `${where}: ${kind}`);
  tell(element("spoken"), spoken.length ? `To be seen to: ${spoken.join("; ")}` : fine);
}

function madeProblem() {
  return make("li", {}, make("strong"), " ", make("span"), " ", make("span", { className: "advice" }));
}

function showProblem(item, { where, detail, way_out: wayOut }) {
  const [name, what, advice] = item.children;
  tell(name, where);
  tell(what, `${detail}.`);
  showAdvice(advice, wayOut);
}

/** A text in which every command, in backticks, can be copied. */
function showAdvice(where, text) {
  if (where.dataset.text === text) return;
  where.dataset.text = text;
  where.replaceChildren(...text.split("`").map((part, at) => (at % 2 ? command(part) : part)));
}

function command(text) {
  const code = make("code", {}, text);
  const button = make("button", { type: "button" }, "Copy");
  button.setAttribute("aria-label", `Copy ${text}`);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      tell(button, "Copied");
    } catch {
      getSelection().selectAllChildren(code);
      tell(button, "Selected");
    }
    setTimeout(() => tell(button, "Copy"), 2_000);
  });
  return make("span", { className: "command" }, code, button);
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
  const words = { bad: "to be seen to", warn: `${duration(total.lag_s)} behind`, good: "keeps up" };
  tell(head.children[1], words[worst]);
  lag.replaceChildren(number(total.lag), " ", make("small", {}, total.lag === 1 ? "record behind" : "records behind"));
  const said = [`${number(total.position)} of ${number(total.end)} folded`];
  if (total.folded_per_s != null) said.push(`${number(total.folded_per_s)} a second`);
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

/** The worst that is to be said of a partition. */
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
  const scope = one.scope === "*timeline" ? ", timeline" : one.scope ? `, contest ${one.scope}` : "";
  tell(title, `${NAMES[one.fold] ?? one.fold}${scope}, generation ${one.generation}: ${one.state}`);
  const share = one.end ? Math.min(1, one.folded / one.end) : 1;
  bar.hidden = one.state !== "building";
  bar.max = 1;
  bar.value = share;
  bar.setAttribute("aria-label", title.textContent);
  const said = [`${number(one.folded)} of ${number(one.end)} records (${(100 * share).toFixed(1)} %)`];
  said.push(one.partitions === 1 ? "1 partition" : `${one.partitions} partitions`);
  if (one.folded_per_s) said.push(`${number(one.folded_per_s)} a second`);
  if (one.left_s != null) said.push(`${duration(one.left_s)} left`);
  tell(far, said.join(" · "));
  showAdvice(what, stands(one) ? `does not move: \`${resumed(one)}\` goes on with it` : STATES[one.state](one));
}

const stands = (one) => one.state === "building" && one.folded_per_s === 0;

function resumed({ fold, scope }) {
  const which = scope && scope !== "*timeline" ? `--contest ${scope}` : `--projection ${scope ? "timeline" : fold}`;
  return `tally replay run ${which} --execute`;
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
  if (shut != null) return shut ? `${shut} shut` : "open";
  return open == null ? "" : open ? "open" : "shut";
}

function stalled({ stalled_since: since, stalled: count }) {
  return since ? time(since) : count ? `${count} stalled` : "";
}

function showSealed(sealed) {
  tell(element("sealed-title"), `Sealed contests: ${sealed.length ? number(sealed.length) : "none"}`);
  const made = () => make("tr", {}, make("td"), make("td", { className: "number" }), make("td"), make("td", {}, make("code")));
  follow(element("sealed"), sealed, (one) => one.contest, made, (line, one) => {
    const [contest, closing, when, hash] = line.children;
    tell(contest, one.contest);
    tell(closing, number(one.closing));
    tell(when, time(one.sealed_at));
    tell(hash.firstChild, one.sha256);
  });
}
