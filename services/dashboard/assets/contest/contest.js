// The live page of a contest, and the control desk of its show: the stream's events update `state`,
// and `render` shows it.

import { Announcements } from "./screen-reader.js";
import { saveCsv, savePng } from "./export.js";
import { isLate, showLink, showTime, showTitle } from "./headline.js";
import { History } from "./history.js";
import { follow, make, setText } from "../keyed-elements.js";
import { element, isCommand, parameter, setParameter, write } from "../page-elements.js";
import { Participants } from "../participants.js";
import { ahead, figures, Movement, placesOf } from "../participant-ranks.js";
import { ChartPanel } from "./chart-panel.js";
import { Ranking } from "../ranking-list.js";
import { Rate } from "../rate.js";
import { clock } from "../service-clock.js";
import { open, Refused } from "../session.js";
import { start } from "../shell.js";
import { ShowDesk } from "./show-desk.js";
import { Sources } from "./sources.js";
import { listen } from "../stream.js";
import { mark, t } from "../texts.js";
import { startLinks } from "./wall-links.js";
import * as words from "../formatting.js";
import { colourOf } from "../palette.js";

const KEY = decodeURIComponent(location.pathname.split("/")[3]);
const PATH = `/contests/${encodeURIComponent(KEY)}`;
const RENDER_MS = 200;
const SAID_MS = 2_000;

/** Why the connection is lost. */
const LOST = {
  ended: t("The service has ended the connection."),
  unreachable: t("The service cannot be reached."),
  offline: t("This device is offline."),
};

const state = {
  /** @type {Standing | null} The last `phase` event. */
  standing: null,
  link: "connecting", // or "live", "stale", "lost", "gone", "refused"
  why: "",
  seen: 0, // when the data was last up to date, by the service's clock
  /** @type {Counts | null} The last `counts` event. */
  latest: null,
};
let pending = 0;

const rate = new Rate();
const people = new Participants();
const movement = new Movement();
const announcements = new Announcements();
const past = new History(KEY, () => panel.draw());
const panel = new ChartPanel(past, people, {
  counts: () => state.latest,
  now: () => clock.now(),
  changed: render,
});
const ranking = new Ranking(element("ranking"), (key) => panel.pick(key));
const sources = new Sources(
  element("sources"),
  element("sources-of"),
  (key) => people.of(key).name,
);

const places = () => (state.latest ? placesOf(state.latest, (key) => people.of(key).order) : []);
const isPresenter = parameter("view") === "presenter";
const desk = new ShowDesk(PATH, {
  places,
  nameOf: (key) => people.of(key).name,
  isReadOnly: isPresenter,
});

function render() {
  if (pending) return;
  pending = setTimeout(() => {
    pending = 0;
    const found = places();
    showTitle(people.title || KEY, people.image, state.standing);
    showLink(state);
    desk.render();
    showRunningOrder();
    showSeal();
    showCorrections();
    showFigures(found);
    showRanking(found);
    sources.show(state.latest);
    panel.draw();
    if (state.latest)
      announcements.say(found, state.latest, (key) => people.of(key).name, state.standing?.final);
  }, RENDER_MS);
}

function received(event, data) {
  if (event === "phase") {
    clock.set(data.server_time);
    if (data.hidden) forget();
    else if (state.standing?.hidden !== false) past.refresh();
    if (data.lag?.seconds) rate.forget();
    state.standing = data;
    desk.follow(data);
  } else if (event === "details") {
    people.update(data);
  } else if (event === "counts") {
    state.latest = data;
    rate.add(data.count);
  } else if (event === "gone") state.link = "gone";
  if (event === "stale") Object.assign(state, { link: "stale", seen: Date.parse(data.since) });
  else if (event !== "gone") state.link = "live";
  if (state.link === "live") state.seen = clock.now();
  render();
}

/** Discards counts that have become hidden. */
function forget() {
  state.latest = null;
  movement.forget();
  rate.forget();
  past.forget();
  panel.forget();
  announcements.forget();
}

function showSeal() {
  const { seal } = people;
  element("sealed").hidden = !seal;
  if (!seal) return;
  write(
    "sealed-at",
    t("Sealed {time}. SHA-256 of the certificate:", {
      time: words.date(Date.parse(seal.sealed_at)),
    }),
  );
  write("sealed-sha256", seal.sha256);
  element("sealed-file").href = `${PATH}/certificate`;
}

/** Who performs in which order, for a presenter, while nothing is revealed. */
function showRunningOrder() {
  const list = element("running-order");
  list.hidden = !isPresenter || state.standing?.show.state === "reveal";
  if (!list.hidden)
    follow(
      list,
      people.all,
      (person) => person.key,
      () => make("li"),
      (line, person) => setText(line, person.name),
    );
}

const CORRECTED = {
  title: mark("Corrected on {time} by {by}: {name} is now called {now}"),
  running_order: mark("Corrected on {time} by {by}: the order is now {now}"),
  approved: mark(
    "Corrected on {time} by {by}: {name} is admitted again, once the contest is reopened",
  ),
  pending: mark("Corrected on {time} by {by}: {name} is withdrawn, once the contest is reopened"),
  rejected: mark(
    "Corrected on {time} by {by}: {name} is disqualified, once the contest is reopened",
  ),
};

/**
 * Titles, statuses and the order, where they were changed after the end, beside those that people
 * voted for.
 */
function showCorrections() {
  const list = element("corrections");
  list.hidden = !people.corrections.length;
  const lines = people.corrections.map(
    ({ participant_key: key, member, title, after, corrected, corrected_by: by }) => {
      const line = document.createElement("li");
      const name = key === null ? people.title || KEY : title || people.of(key).name;
      const now =
        member === "running_order"
          ? after.map((act) => people.of(act).name).join(", ")
          : (after ?? "–");
      line.textContent = t(CORRECTED[member] ?? CORRECTED[after], {
        time: words.date(Date.parse(corrected)),
        by: by ?? "–",
        name,
        now,
      });
      return line;
    },
  );
  list.replaceChildren(...lines);
}

function showFigures(found) {
  const counts = state.latest;
  const [first, second] = found;
  const unit = words.units(counts?.contest_type);
  const isBallots = counts?.contest_type === "ordering";
  write("count", counts ? words.number(counts.count) : "–");
  write("unique", counts ? words.number(counts.unique_voter_count) : "–");
  write("anonymous", counts ? words.number(counts.anonymous_voter_count) : "–");
  if (counts)
    element("anonymous").title = words.share(
      counts.anonymous_voter_count,
      counts.unique_voter_count,
    );
  const leads = first && second && first.count > 0;
  write("lead", leads ? ahead(first, second, counts) : "–");
  write("leader", leads ? (second.rank === 1 ? t("level") : people.of(first.key).name) : "");
  write("count-unit", t(unit.name));
  write("source-unit", t(unit.name));
  write("rate-unit", t(unit.rate));
  write("unique-unit", isBallots ? t("Ballots") : t("Voters"));
  showClock();
}

function showClock() {
  showTime(state, state.latest, clock.now());
  const isCounting = state.link === "live" && !isLate(state);
  const [second, minute] = isCounting ? [rate.perSecond, rate.perMinute] : [null, null];
  write("rate", second === null ? "–" : words.decimal(second));
  write(
    "per-minute",
    minute === null ? "" : t("{n} a minute", { n: words.number(Math.round(minute)) }),
  );
}

/**
 * Returns all rows of the ranking; while counts are hidden, participants in running order without
 * any.
 */
function rowsOf(found) {
  const counts = state.latest;
  if (!counts)
    return state.standing?.hidden
      ? people.all.map((person) => ({ ...person, colour: colourOf(person) }))
      : [];
  movement.update(found);
  const hasVotes = found.some((place) => place.count > 0); // before the first vote nobody is first
  return found.map((place) => {
    const person = people.of(place.key);
    const isWinner = state.standing?.final && place.rank === 1 && place.count > 0;
    const moved = isWinner ? 0 : movement.of(place.key);
    const rank = hasVotes ? place.rank : null;
    return {
      ...person,
      ...place,
      rank,
      ...figures(place, found[0], counts),
      colour: colourOf(person),
      isWinner,
      moved,
      isPicked: panel.shows(place.key),
    };
  });
}

function showRanking(found) {
  if (state.latest) panel.follow(found);
  const search = element("search").value.trim().toLocaleLowerCase();
  const all = rowsOf(found);
  const matching = search
    ? all.filter((row) => row.name?.toLocaleLowerCase().includes(search))
    : all;
  const shown = matching.slice(0, Number(element("top").value));
  ranking.show(shown);
  write("ranking-title", state.standing?.hidden ? t("Participants") : t("Ranking"));
  write("ranking-note", note(all.length, matching.length, shown.length));
}

function note(all, matching, shown) {
  if (!state.latest && !state.standing?.hidden) return t("Loading …");
  if (all === 0 && state.latest) return t("There are no participants yet.");
  if (matching === 0 && all > 0) return t("No participant matches.");
  return matching > shown ? t("and {n} more", { n: words.number(matching - shown) }) : "";
}

/** Returns the export: the title, and all rows of the ranking. */
const shownResult = () => ({
  title: people.title || KEY,
  counts: state.latest,
  time: clock.now(),
  rows: rowsOf(places()).filter((row) => row.count !== undefined),
  isFinal: Boolean(state.standing?.final),
});

element("search").addEventListener("input", render);
for (const id of ["top", "sources-of"]) element(id).addEventListener("change", render);
setInterval(() => {
  if (state.latest) rate.add(state.latest.count);
  showClock();
}, 500);
setInterval(render, 10_000); // arrows go

element("wall").href = `${location.pathname}/wall`;
addEventListener("keydown", (event) => {
  if (isCommand(event, "f")) element("wall").click();
});
element("save-csv").addEventListener("click", () => state.latest && saveCsv(shownResult()));
element("save-png").addEventListener("click", () => state.latest && savePng(shownResult()));
element("copy-link").addEventListener("click", copyLink);
element("has-chart").addEventListener("click", () => {
  showLayout(parameter("chart") === "no");
  panel.redraw();
  render();
});

function showLayout(hasChart) {
  setParameter("chart", hasChart ? "" : "no");
  element("has-chart").setAttribute("aria-pressed", hasChart);
  document.body.classList.toggle("no-chart", !hasChart);
}

async function copyLink({ target }) {
  const before = t("Copy link");
  try {
    await navigator.clipboard.writeText(location.href);
    target.textContent = t("Copied");
  } catch {
    target.textContent = t("Copy the address from the browser");
  }
  setTimeout(() => (target.textContent = before), SAID_MS);
}

showLayout(parameter("chart") !== "no");
startLinks(PATH);
element("edit").href = `/dashboard${PATH}/edit`;
element("presenter").href = `${location.pathname}?view=presenter`;
document.body.classList.toggle("presenter", isPresenter);
await start();
if (isPresenter) element("desk").hidden = false;
past.start();
try {
  await listen(
    (options) => open(`${PATH}/vote_updates/stream?sources=true&details=true`, options),
    {
      received,
      alive() {
        if (state.link === "live") state.seen = clock.now();
      },
      connected: () => rate.forget(),
      lost(why) {
        Object.assign(state, { link: "lost", why: LOST[why] });
        showLink(state);
        showClock();
      },
    },
  );
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  Object.assign(state, { link: "refused", why: error.message });
  showLink(state);
}
