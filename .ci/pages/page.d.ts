// What the pages' scripts find around them.

/** An element that the page's own HTML has, with the members of its kind. */
type PageElement = HTMLElement & Record<string, any>;

interface ParentNode {
  querySelector(selectors: string): PageElement;
  querySelectorAll(selectors: string): NodeListOf<PageElement>;
}

/** The chart library, of a script of its own. */
declare const uPlot: any;

/** What screens show: `GET /contests/<key>/show`. */
interface Show {
  state: "live" | "held" | "reveal" | "result";
  held_at: string | null;
  revealed: number;
  reveals: "counts" | "points";
  is_released: boolean;
  call_to_vote: { is_shown: boolean; url: string | null; text: string | null };
  message: string | null;
}

/** The data of a stream's `phase` event. */
interface Standing {
  phase: "setup" | "announced" | "running" | "finished";
  start: string | null;
  end: string | null;
  final: boolean;
  sealed: boolean;
  visibility: "shown" | "hidden_until_vote" | "hidden_until_end" | "hidden";
  result_release: "at_end" | "by_hand";
  hidden: boolean;
  is_public: boolean;
  is_counting: boolean;
  held_final: boolean;
  show: Show;
  lag: { records: number; seconds: number } | null;
  server_time: string;
}

/** The data of a screen's `board` event. */
interface Board {
  contest_type: string;
  held_at: string | null;
  final: boolean;
  count: number | null;
  unique_voter_count: number | null;
  anonymous_voter_count: number | null;
  covered: number;
  participants: {
    participant_key: string;
    rank: number;
    count?: number;
    points?: number;
    unique_voter_count?: number;
    rating?: { average: number | null; distribution: Record<string, number> };
  }[];
}

/** The data of a `counts` event, as far as the pages use it. */
interface Counts {
  contest_type: string;
  count: number;
  unique_voter_count: number;
  anonymous_voter_count: number;
  updated: string;
  participants: Record<string, any>;
  [member: string]: any;
}
