// Renders a status on the operator's page.

import { setCommandOptions, showAdvice } from "./advice.js";
import { follow, make, setText } from "../keyed-elements.js";
import { clock } from "../service-clock.js";
import { element } from "../shell.js";
import { date, decimal, number, plural, share, span, time } from "../formatting.js";
import { mark, t } from "../texts.js";

const BEHIND_S = 1;
const OLDEST_PENDING_S = 10;
const NAMES = {
  votes: mark("Votes"),
  purchases: mark("Purchases"),
  catalogue: mark("Catalogue"),
  test: mark("Test environment"),
};
const nameOf = (projection) => (projection in NAMES ? t(NAMES[projection]) : projection);

/** Explains a generation's state, with commands in backticks. */
const STATES = {
  building: (one) =>
    one.processed_per_s === 0
      ? t("makes no progress: {command} continues it", {
          command: `\`tally replay run ${chosen(one)} --execute\``,
        })
      : "",
  following: () => t("built and kept up to date; verify it, then swap it in"),
  kept: (one) =>
    t("the former one: {rollback} returns to it, {command} frees its memory", {
      rollback: `\`tally replay rollback ${chosen(one)} --execute\``,
      command: given(one),
    }),
  broken: (one) => t("cannot process further records: {command} drops it", { command: given(one) }),
  other_layout: (one) =>
    t("of another version: {command} drops it once that version is not needed", {
      command: given(one),
    }),
};

function chosen({ projection }) {
  return `--projection ${projection}`;
}

function given({ projection, generation }) {
  return `\`tally replay drop --projection ${projection} --generation ${generation} --execute\``;
}

const COLUMNS = [
  [mark("Position"), (row) => whole(row.position)],
  [mark("Log end"), (row) => whole(row.end)],
  [mark("Lag"), (row) => whole(row.lag), (row) => (row.position > row.end ? "bad" : "")],
  [mark("Behind"), (row) => duration(row.lag_s), (row) => (row.lag_s > BEHIND_S ? "warn" : "")],
  [mark("Voting"), gate, (row) => (isPaused(row) ? "bad" : "")],
  [
    mark("Pending"),
    (row) => whole(row.pending),
    (row) => (row.oldest_pending_s > OLDEST_PENDING_S ? "warn" : ""),
  ],
  [mark("Quarantine"), (row) => whole(row.quarantined), (row) => (row.quarantined ? "bad" : "")],
  [mark("Overruled"), (row) => whole(row.overruled), (row) => (row.overruled ? "bad" : "")],
  [mark("Records/s"), (row) => whole(row.processed_per_s)],
  [mark("Generation"), (row) => whole(row.generation)],
  [mark("Last event"), (row) => when(row.last_event)],
  [mark("Stalled since"), stalled, (row) => (stalled(row) ? "bad" : "")],
];

/** Returns a title with its key, or the key alone. */
const titled = (title, key) => (title ? `${title} (${key})` : key);

/** Formats a number or rate, which may be missing. */
const whole = (value) => (value == null ? "" : number(Math.round(value)));

/** Formats seconds, with tenths below a minute. */
export const duration = (seconds) =>
  seconds < 60 ? `${seconds ? decimal(seconds) : 0} s` : span(1_000 * seconds);

/** Formats an RFC 3339 time, today's without the date. */
function when(text) {
  const at = Date.parse(text ?? "");
  if (Number.isNaN(at)) return "";
  return new Date(at).toDateString() === new Date(clock.now()).toDateString() ? time(at) : date(at);
}

/** Shows a status from `/operations/status`; with `everything` also partitions without problems. */
export function show(status, everything) {
  setCommandOptions(status.command_options);
  setText(element("version"), `Tallykeeper ${status.version}`);
  showProblems(status);
  const readable = Object.entries(status.projections).filter(([, rows]) => rows.length);
  follow(
    element("projections"),
    readable,
    ([name]) => name,
    madeProjection,
    (card, [name, rows]) => showProjection(card, rows, status.totals[name]),
  );
  element("generations-panel").hidden = !status.generations.length;
  follow(
    element("generations"),
    status.generations,
    (one) => [one.projection, one.generation],
    madeGeneration,
    showGeneration,
  );
  showPartitions(status, everything);
  showSealed(status.sealed);
}

function showProblems({ problems, projections, dependencies }) {
  const fine = t(
    "No problems: all {n} partitions are up to date, votes are accepted, no records are quarantined.",
    {
      n: Object.values(projections).flat().length,
    },
  );
  setText(element("fine"), fine);
  element("fine").hidden = problems.length > 0;
  follow(
    element("problems"),
    problems,
    (one) => `${one.kind} ${one.where}`,
    madeProblem,
    showProblem,
  );
  follow(
    element("dependencies"),
    Object.entries(dependencies),
    ([name]) => name,
    () => make("li"),
    (item, [name, is]) => {
      item.className = `chip ${is === "ready" ? "good" : "bad"}`;
      setText(item, `${name}: ${is === "ready" ? t("ready") : is}`);
    },
  );
  const spoken = problems.map(({ kind, where }) => `${where}: ${kind}`);
  setText(
    element("spoken"),
    spoken.length ? t("Problems: {list}", { list: spoken.join("; ") }) : fine,
  );
}

function madeProblem() {
  // the service explains problems in English
  return make(
    "li",
    { lang: "en" },
    make("strong"),
    " ",
    make("span"),
    " ",
    make("span", { className: "advice" }),
  );
}

function showProblem(item, { where, detail, remedy }) {
  const [name, what, advice] = item.children;
  setText(name, `${where}:`);
  setText(what, `${detail}.`);
  showAdvice(advice, remedy);
}

function madeProjection([name]) {
  const head = make("div", { className: "head" }, make("h2", {}, nameOf(name)), make("span"));
  const strip = make("div", { className: "strip" });
  strip.setAttribute("aria-hidden", "true");
  return make(
    "article",
    { className: "panel" },
    head,
    make("p", { className: "lag" }),
    make("p", { className: "soft" }),
    strip,
  );
}

function showProjection(card, rows, total) {
  const [head, lag, rest, strip] = card.children;
  const worst = rows
    .map(level)
    .sort((one, other) => LEVELS.indexOf(one) - LEVELS.indexOf(other))[0];
  head.children[1].className = `chip ${worst}`;
  const words = {
    bad: t("needs attention"),
    warn: t("{span} behind", { span: duration(total.lag_s) }),
    good: t("up to date"),
  };
  setText(head.children[1], words[worst]);
  lag.replaceChildren(
    number(total.lag),
    " ",
    make("small", {}, total.lag === 1 ? t("record behind") : t("records behind")),
  );
  const said = [t("{n} of {all} processed", { n: number(total.position), all: number(total.end) })];
  if (total.processed_per_s) said.push(t("{n} a second", { n: whole(total.processed_per_s) }));
  if (total.pending != null) said.push(t("{n} pending", { n: number(total.pending) }));
  if (total.overruled) said.push(t("{n} overruled", { n: number(total.overruled) }));
  if (total.quarantined) said.push(t("{n} in quarantine", { n: number(total.quarantined) }));
  if (total.dropped) said.push(t("{n} dropped", { n: number(total.dropped) }));
  setText(rest, said.join(" · "));
  follow(
    strip,
    rows,
    (row) => row.partition,
    () => make("i"),
    (cell, row) => {
      cell.className = level(row);
      cell.title = `${t("Partition")} ${row.partition}: ${plural(row.lag, RECORDS_BEHIND)}`;
    },
  );
}

const STATE_NAMES = {
  building: mark("building"),
  following: mark("following"),
  kept: mark("kept"),
  broken: mark("broken"),
  other_layout: mark("other layout"),
};
const RECORDS_BEHIND = { one: mark("{n} record behind"), many: mark("{n} records behind") };
const PARTITIONS = { one: mark("{n} partition"), many: mark("{n} partitions") };
const LEVELS = ["bad", "warn", "good"];

/** Returns the worst level of a partition's values. */
function level(row) {
  const marks = COLUMNS.map(([, , mark]) => mark?.(row));
  if (row.schema !== row.code_schema || row.generations.some(({ state }) => state === "broken"))
    return "bad";
  return LEVELS.find((mark) => marks.includes(mark)) ?? "good";
}

function madeGeneration() {
  return make(
    "li",
    {},
    make("strong"),
    make("progress"),
    make("span"),
    make("span", { className: "soft" }),
  );
}

function showGeneration(item, one) {
  const [title, bar, far, what] = item.children;
  const state = one.state in STATE_NAMES ? t(STATE_NAMES[one.state]) : one.state;
  setText(
    title,
    t("{name}, generation {number}: {state}", {
      name: nameOf(one.projection),
      number: one.generation,
      state,
    }),
  );
  bar.hidden = one.state !== "building";
  bar.max = Math.max(1, one.end);
  bar.value = one.processed;
  bar.setAttribute("aria-label", title.textContent);
  const said = [
    t("{n} of {all} records ({share})", {
      n: number(one.processed),
      all: number(one.end),
      share: share(one.processed, one.end),
    }),
  ];
  said.push(plural(one.partitions, PARTITIONS));
  if (one.processed_per_s) said.push(t("{n} a second", { n: whole(one.processed_per_s) }));
  if (one.left_s != null) said.push(t("{span} left", { span: duration(one.left_s) }));
  setText(far, said.join(" · "));
  showAdvice(what, STATES[one.state](one));
}

function showPartitions(status, everything) {
  follow(
    element("columns"),
    [mark("Partition"), ...COLUMNS.map(([name]) => name)],
    (name) => name,
    madeHead,
    () => {},
  );
  const rows = Object.entries(status.projections).flatMap(([projection, partitions]) => [
    {
      projection,
      name: t("{name}, all", { name: nameOf(projection) }),
      ...status.totals[projection],
      total: true,
    },
    ...partitions
      .filter((row) => everything || level(row) !== "good")
      .map((row) => ({ projection, name: `${nameOf(projection)} ${row.partition}`, ...row })),
  ]);
  follow(
    element("rows"),
    rows,
    (row) => row.name,
    madeRow,
    (line, row) =>
      COLUMNS.forEach(([, text, mark], at) => {
        const cell = line.children[at + 1];
        setText(cell, text(row));
        cell.className = `number ${mark?.(row) ?? ""}`;
      }),
  );
}

function madeHead(name) {
  return make("th", { scope: "col", className: name === "Partition" ? "" : "number" }, t(name));
}

function madeRow({ name, total }) {
  const cells = COLUMNS.map(() => make("td"));
  return make(
    "tr",
    { className: total ? "total" : "" },
    make("th", { scope: "row" }, name),
    ...cells,
  );
}

function gate({ open, shut }) {
  if (shut != null) return shut ? t("{n} paused", { n: shut }) : t("open");
  return open == null ? "" : open ? t("open") : t("paused");
}

function isPaused({ open, shut }) {
  return shut != null ? shut > 0 : open === false;
}

function stalled({ stalled_since: since, stalled: count }) {
  return since ? when(since) : count ? t("{n} stalled", { n: count }) : "";
}

function showSealed(sealed) {
  setText(
    element("sealed-title"),
    t("Sealed contests: {n}", { n: sealed.length ? number(sealed.length) : t("none") }),
  );
  const made = () =>
    make(
      "tr",
      {},
      make("td"),
      make("td", { className: "number" }),
      make("td"),
      make("td", {}, make("code")),
    );
  follow(
    element("sealed"),
    sealed,
    (one) => one.contest,
    made,
    (line, one) => {
      const [contest, closing, sealed, hash] = line.children;
      setText(contest, titled(one.title, one.contest));
      setText(closing, number(one.closing));
      setText(sealed, when(one.sealed_at));
      setText(hash.firstChild, one.sha256);
    },
  );
}
