// One story through the client that openapi-generator makes for TypeScript: `story.js BASE_URL KEY`.
import {
    Configuration,
    ContestsApi,
    ParticipantsApi,
    ProblemFromJSON,
    ResponseError,
    ResultsApi,
    VotesApi,
} from "./client/index";

const LONG_AGO = new Date("2020-05-01T18:00:00Z");
declare const process: { argv: string[]; exitCode: number };

function same(found: unknown, expected: unknown): void {
    if (JSON.stringify(found) !== JSON.stringify(expected)) {
        throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(expected)}`);
    }
}

async function tell(basePath: string, accessToken: string): Promise<void> {
    const configuration = new Configuration({ basePath, accessToken });
    const contests = new ContestsApi(configuration);
    const votes = new VotesApi(configuration);
    const { key: contestKey } = await contests.createContest({
        contest: {
            title: "Song of the year",
            publish: LONG_AGO,
            contestConfig: { start: LONG_AGO, free: { maxContest: 7, maxParticipant: 1 } },
        },
    });
    const participants = new ParticipantsApi(configuration);
    const ann = await participants.createParticipant({ contestKey, participant: { title: "Ann" } });
    const ben = await participants.createParticipant({ contestKey, participant: { title: "Ben" } });
    const voteForm = { voteId: "vote-1", participantKey: ann.key, voterId: "voter-1" };
    const cast = await votes.castVoteRaw({ contestKey, voteForm });
    same((await cast.value()).status, "accepted");
    const position = cast.raw.headers.get("Tally-Position");
    const minPosition = position === null ? [] : [position];
    const count = await new ResultsApi(configuration).getVoteCounts({ contestKey, minPosition });
    same([count.participants[ann.key]?.count, count.participants[ben.key]?.count], [1, 0]);
    same((await contests.listContests({ limit: 1 })).data.length, 1);
    try {
        await votes.castVote({ contestKey, voteForm: { ...voteForm, voteId: "vote-2" } });
        throw new Error("a second vote");
    } catch (refused) {
        if (!(refused instanceof ResponseError)) {
            throw refused;
        }
        const problem = ProblemFromJSON(await refused.response.json());
        same([refused.response.status, problem.code, problem.limit], [409, "participant_limit_reached", 1]);
    }
    const contestPatch = { contestConfig: { free: { maxParticipant: 5 } } };
    const changed = await contests.updateContest({ contestKey, contestPatch });
    same(changed.title, "Song of the year");
    same([changed.contestConfig?.free?.maxContest, changed.contestConfig?.free?.maxParticipant], [7, 5]);
}

tell(process.argv[2] ?? "", process.argv[3] ?? "").then(
    () => console.log("told"),
    (error: unknown) => {
        console.error(error);
        process.exitCode = 1;
    },
);
