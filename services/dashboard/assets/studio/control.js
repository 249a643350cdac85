// Opening, closing, reopening, releasing and deleting a contest. What cannot be undone asks first,
// and says what it does.

import { make } from "../keyed-elements.js";
import { element } from "../page-elements.js";
import { mark, t } from "../texts.js";
import * as words from "../formatting.js";
import { changesOf, send } from "../record-form.js";
import { read, recordAt, said, write } from "../requests.js";
import { clock } from "../service-clock.js";
import { TimeField } from "../time-field.js";

const SENTENCES = {
  setup: mark("The contest is in setup: the public does not see it yet."),
  announced: mark("The public sees the contest. Voting has not begun."),
  running: mark("Voting is open."),
  finished: mark("Voting is over."),
};

export class Control {
  /**
   * `contest` has the `record` and its `etag`; `permissions` are the session's; `changed` gets both
   * after each change.
   */
  constructor(contest, key, permissions, { changed, report }) {
    this.contest = contest;
    this.permissions = permissions;
    this.changed = changed;
    this.report = report;
    this.key = key;
    this.path = `/contests/${encodeURIComponent(key)}`;
    this.newEnd = new TimeField(element("reopening").elements.end);
    element("reopening").addEventListener("submit", (event) => {
      event.preventDefault();
      this.reopen();
    });
    this.askDeletion();
  }

  /** Shows what can be done with the contest as it is. */
  async show() {
    const { phase, contest_config: config } = this.contest.record;
    element("phase").hidden = false;
    element("phase").textContent = t(words.PHASES[phase]);
    element("phase").className = phase === "running" ? "chip good" : "chip";
    const until =
      phase === "running" && config.end
        ? ` ${t("It closes {time}.", { time: words.date(Date.parse(config.end)) })}`
        : "";
    element("state").textContent = `${t(SENTENCES[phase])}${until}`;
    const buttons = [];
    if (phase === "setup")
      buttons.push(
        this.button(t("Announce to the public"), () => this.change([[["publish"], this.now()]])),
      );
    if (phase === "setup" || phase === "announced")
      buttons.push(
        this.asking(
          t("Open now"),
          t("People can vote at once."),
          t("Open voting"),
          () => this.openNow(),
          "primary",
        ),
      );
    if (phase === "running")
      buttons.push(
        this.asking(
          t("Close now"),
          t("Later votes do not count."),
          t("Close voting"),
          () => this.change([[["contest_config", "end"], this.now()]]),
          "danger",
        ),
      );
    if (phase === "finished" && config.result_release === "by_hand")
      buttons.push(...(await this.releasing()));
    element("control").replaceChildren(...buttons);
    element("reopening").hidden = phase !== "finished";
    await this.previewReopening();
  }

  /**
   * The service's time, never ahead of it: a contest that opens now is open when the answer comes.
   */
  now() {
    return new Date(clock.now()).toISOString();
  }

  openNow() {
    const {
      publish,
      contest_config: { start, end },
    } = this.contest.record;
    const now = this.now();
    const isPast = (time) => Boolean(time) && Date.parse(time) <= Date.parse(now);
    const members = [];
    if (!isPast(publish)) members.push([["publish"], now]);
    if (!isPast(start)) members.push([["contest_config", "start"], now]);
    if (isPast(end)) members.push([["contest_config", "end"], null]);
    return this.change(members);
  }

  /**
   * Changes members of the contest, unless somebody else has changed them since they were shown.
   */
  async change(members) {
    await this.attempt(async () => {
      const changes = changesOf(this.contest.record, members);
      const sent = await send(() => changes, this.contest, recordAt(this.path));
      await this.changed(sent);
      if (sent.conflicts.length > 0)
        this.report(
          t("Somebody else has changed this, too. It is shown now; press again if it shall be."),
        );
    });
  }

  /**
   * Says what a reopening changes in the result; nothing if it changes nothing, or the key may not
   * see it.
   */
  async previewReopening() {
    let lines = [];
    if (this.contest.record.phase === "finished" && this.permissions.includes("results:read"))
      try {
        const { body } = await read(`${this.path}/reopen`);
        const differs = ({ before, after }) =>
          before.count !== after.count || before.rank !== after.rank;
        lines = body.participants
          .filter(differs)
          .map(({ title, participant_key: key, before, after }) => {
            const [was, becomes] = [before, after].map(({ count, rank }) =>
              rank === null
                ? t("not in the result")
                : t("{count}, place {rank}", { count: words.number(count), rank }),
            );
            return make(
              "li",
              {},
              t("{name}: {was} → {becomes}", { name: title ?? key, was, becomes }),
            );
          });
      } catch (error) {
        said(error); // hidden, or just ended and not closed yet
      }
    element("reopening-effects").replaceChildren(...lines);
    element("reopening-effect").hidden = lines.length === 0;
  }

  async reopen() {
    await this.attempt(async () => {
      const { body, etag } = await write("POST", `${this.path}/reopen`, {
        end: this.newEnd.moment,
      });
      await this.changed({ record: body, etag });
    });
  }

  /** The button that releases the result, or that it is released. */
  async releasing() {
    if (!this.permissions.includes("show:control"))
      return [
        make(
          "p",
          {},
          t("Releasing the result needs the permission {name}.", { name: "show:control" }),
        ),
      ];
    try {
      const { body, etag } = await read(`${this.path}/show`);
      if (body.is_released)
        return [make("p", { className: "chip good" }, t("The result is released."))];
      const { contest_key: _, updated: __, held_at: ___, released_at: ____, ...show } = body;
      const release = () =>
        this.attempt(async () => {
          try {
            await write(
              "PUT",
              `${this.path}/show`,
              { ...show, is_released: true },
              { "If-Match": etag },
            );
          } finally {
            // also after a desk has changed the show: the next press releases that one
            await this.show();
          }
        });
      return [
        this.asking(
          t("Release the result"),
          t("The public sees it at once."),
          t("Release"),
          release,
          "primary",
        ),
      ];
    } catch (error) {
      return [make("p", { className: "error" }, said(error))];
    }
  }

  async attempt(act) {
    this.report("");
    try {
      await act();
    } catch (error) {
      this.report(said(error));
    }
  }

  button(text, press, className = "") {
    const button = make("button", { type: "button", className }, text);
    button.addEventListener("click", press);
    return button;
  }

  /** A button that asks before it acts. */
  asking(text, effect, sure, act, className) {
    const place = make("span", { className: "buttons" });
    const back = () => {
      place.replaceChildren(ask);
      ask.focus();
    };
    const ask = this.button(text, () => {
      const no = this.button(t("Cancel"), back);
      place.replaceChildren(
        make("span", { role: "status" }, effect),
        this.button(sure, act, className),
        no,
      );
      no.focus();
    });
    place.append(ask);
    return place;
  }

  /** Asks once for a contest without votes, twice for one with votes, which it names. */
  askDeletion() {
    const place = element("deletion");
    const back = () => {
      place.replaceChildren(ask);
      ask.focus();
    };
    const ask = this.button(t("Delete the contest"), async () => {
      const votes = await this.votes();
      const cancel = () => {
        const no = this.button(t("Keep it"), back);
        setTimeout(() => no.focus());
        return no;
      };
      const last = this.button(t("Delete for good"), () => this.remove(), "danger");
      if (votes === "") return place.replaceChildren(t("Nobody has voted in it."), last, cancel());
      const first = this.button(
        t("Delete it with its votes"),
        () =>
          place.replaceChildren(
            make(
              "strong",
              { role: "status" },
              t("Really delete “{title}”, {votes}? An operator can restore it.", {
                title: this.contest.record.title || this.key,
                votes,
              }),
            ),
            last,
            cancel(),
          ),
        "danger",
      );
      return place.replaceChildren(
        make("span", { role: "status" }, t("{votes} were cast in this contest.", { votes })),
        first,
        cancel(),
      );
    });
    place.replaceChildren(ask);
  }

  /** Returns the number of votes as a text, empty without any. */
  async votes() {
    try {
      const { body } = await read(`${this.path}/vote_updates`);
      return body.count ? words.plural(body.count, words.units(body.contest_type)) : "";
    } catch (error) {
      said(error);
      return t("an unknown number of votes");
    }
  }

  async remove() {
    await this.attempt(async () => {
      await write("DELETE", this.path);
      location.assign("/dashboard");
    });
    this.askDeletion();
  }
}
