-- The ledger, gate and views of one partition of the votes log, under one hash tag: KEYS[1] is "<namespace>:{<tag of p>}"
-- (hash_tags.py).
--   base:gate       hash  state (open|shut), run (server run and replication id), n (incarnation), asked, asked_after (the fence that
--                         it shall follow), asked_run, clock (us: the last moment that was given), forget_clock (1 where the
--                         next fence lets the clock go back to the server's)
--   base:config     hash  contest -> configuration version in force
--   base:needs      hash  catalogue partition -> offset that its view must have come to where a worker reads what it puts in
--                         force
--   base:floors     hash  contest -> configuration version below which nothing may come into force, while none is
--   base:pending    hash  contest NUL voter -> packed list of reservations the fold has not confirmed
--   base:due        zset  contest NUL voter NUL digest, by accepted_at (us)
--   base:g<n>:...   the views of generation n (generations/generations.lua): position, fence, fences (a hash: history, a hash
--                   over all fences folded and their offsets), quarantine, stats, contests (a zset, in the order of
--                   their names: of which anything is held), and per contest
--     voters:<contest>   hash  voter -> packed {records, digest of the latest spilled one ('': none), sums, anonymous, epoch, latest free vote (us), slots}
--     shares:<contest>   hash  voter, number (I3) -> packed {sums, slots}, of participants that are not with the voter
--     spill:<contest>    hash  voter digest -> record without digest, and digest of the one spilled before it (none: ''), of voters with more
--                              than INLINE votes: from the latest one, all are found
--     details:<contest>  hash  voter digest -> packed {choices (index, votes, ...) or false, rating or false}, of ratings and ballots
--     counts:<contest>   hash  participant -> packed row; "" -> the contest's own row
--     names:<contest>    hash  index -> participant
--     ratings:<contest>  hash  participant or "" -> packed {ratings, sum, millionths, {sub-rating, ratings, sum,
--                               millionths, ...}, {ratings of 0, of 1, ...}}: sums of whole parts and of the rest, each below
--                               2^53 for thousands of millions of ratings
--     voids:<contest>    hash  voter digest -> packed list of the operations that voided it, the last one last
--     waiting:<contest>  hash  voter digest -> packed removal that came after the close; with 'V' after the digest
--                              list of voidings and restorings {offset, 1 restored, operation}
--     queue:<contest>    zset  the fields of `waiting`, by the offset of what waits there first
--     sources:<contest>  hash  external source -> packed {closing (in force if above the last one reopened), last report
--                              (ms), minute of the last change, ids that it reported, ids of which figures are held,
--                              releases: how often all that was held was taken over}
--     figures:<contest>  hash  external source NUL its id -> packed {count, unique, anonymous, minute of the last change,
--                              and what is held, if anything: {count, unique, anonymous, releases before}}. After the next
--                              release that is what counts, and takes its place when the id is next reported
--     changes:<contest>  zset  by the number of the last change: the fields of `figures`; NUL participant, of rows after the
--                              first FIRST_ROWS; and the sources, by that of the last release. So counts of any size are
--                              read in pages, and later only what changed
--     releases:<contest> hash  external source NUL number of the release -> its minute
--     reports:<contest>  hash  external source NUL report id -> packed {content hash, offset, late, ids held}
--     minutes:<contest>  zset  what rows and sources were before they changed in a later minute (17_timeline.lua)
-- A voter's record (02_vote_records.lua): flags (source + 2 * status + 16 where details say more), digest, content hash,
-- accepted_at, offset, participant index, count, remaining for participant and contest (-1: no limit), next_free_vote_at (0:
-- none), epoch. Index and count are 0 where the details hold the choices, or there are none.
-- sums is flat: key, used, largest limit, active, ...; key = ((epoch * 2^24) + participant index) * 2 + source, index
-- 0 being the contest. Free votes of the voter's latest allowance period and the one before have sums of their own; those
-- of all earlier periods are merged under epoch 0 (see is_over). slots is flat: index * 2 + source, digest of the vote that a later one of the slot replaces.
-- The contest's sums and slots, and those of the first OWN participants that a voter's votes used, are with the voter. Those
-- of all others lie in shares, of SHARE successive indexes together: so a vote costs the same, however many participants its
-- voter has voted for. In a share, periods that are over are merged when it is next used.
-- Rows: see ROW_* below. Numbers stay below 2^53.

local DIGEST_SIZE = 12
local INLINE = 8
local FIRST_ROWS = 100  -- rows of these indexes are read together, so their changes need no numbers
local COUNTED, OVERRULED, REMOVED, REPLACED, VOIDED, LATE = 0, 1, 2, 3, 4, 5
local DETAILED = 16
local FREE = 0
local PLAIN, RATING, BALLOT = 0, 1, 2
local UNLIMITED = -1
-- a row: {index, then count, unique, anonymous of c-free, the same of c-paid, unique, anonymous over both}
local ROW_UNIQUE, ROW_ANONYMOUS = 8, 9
-- a participant's row goes on: minute of the last change (-1: none)
local ROW_MINUTE = 10
-- the contest's row goes on: last offset, last append time (ms), ids by status (six of them), closing in force (below 0
-- while it is being reopened), last one reopened; its index is the last used
local ROW_OFFSET, ROW_TIME, ROW_IDS, ROW_CLOSED, ROW_REOPENED = 10, 11, 12, 18, 19

-- Work of a fold, in units of about 8 us: 1 for a record, each choice of a ballot, two members of a rating, and so many
-- `numbers` of long lists that are read, and more for each share and contest. Folds of not more than `untimed`, which is that
-- of APPLY_ITEMS votes, do not read the clock. That is slow, and would end them early wherever others use the processor.
local WORK = { numbers = 60, share = 2, contest = 4, untimed = 160 }

local SCHEMA = 12  -- raised with every change of what is stored, or of what the same log is folded to
local generations

local function view(base, number) return generations.view(base, number) end

-- the contest's own row; empty while there is none
local function top_of(views, contest) return read_one(views .. ':counts:' .. contest, '') or {} end

-- The partition's clock: its timestamps are unique and increase strictly, whatever the server's clock does. So they
-- identify reservations, also while it waits for a server clock that was set back.
local function next_moment(gate) return math.max(microseconds(), gate.clock + 1) end

-- run: that of this server, if it was read before in the same call
local function load_gate(base, run)
  local v = call('HMGET', base .. ':gate', 'state', 'run', 'n', 'asked', 'asked_run', 'clock',
    'asked_after', 'forget_clock')
  run = run or run_id()
  return {
    open = v[1] == 'open' and v[2] == run, same_run = v[2] == run, run = run, n = tonumber(v[3] or 0),
    asked = tonumber(v[4] or 0), asked_run = v[5], clock = tonumber(v[6] or 0),
    asked_after = tonumber(v[7] or 0), forget_clock = v[8] == '1',
  }
end

-- Returns decide(key, this server's run, argument) of each argument and its key, or the error that it raised: one does not
-- stop the others. Further keys are those that arguments name.
function library.each_key(keys, args, decide)
  local run, replies = run_id(), {}
  for i = 1, #args do
    local done, reply = pcall(decide, keys[i], run, args[i])
    if not done then reply = library.error_reply(reply) end
    replies[i] = reply
  end
  return replies
end

-- the fields of a hash, read at once
local function read_fields(key, fields)
  local found = {}
  if #fields > 0 then
    local values = call('HMGET', key, unpack(fields))
    for i = 1, #fields do found[fields[i]] = values[i] or nil end
  end
  return found
end

local unpack_voter

do
  -- Eight members, for which Lua makes room at once: a ninth would move them all.
  local function new_voter(voter, _, records, spilled, sums, anonymous, epoch, latest, slots)
    return { voter = voter, records = records, spilled = spilled, sums = sums, anonymous = anonymous, epoch = epoch or 0,
      latest = latest or 0, slots = slots or {} }
  end

  -- of a packed list, whose head is one byte
  function unpack_voter(voter, packed)
    if packed then return new_voter(voter, unpack_members(packed, 7, 1)) end
    return new_voter(voter, nil, '', '', {})
  end
end

local function pack_voter(s)
  if #s.slots > 0 then return pack({ s.records, s.spilled, s.sums, s.anonymous, s.epoch, s.latest, s.slots }) end
  if s.latest > 0 then return pack({ s.records, s.spilled, s.sums, s.anonymous, s.epoch, s.latest }) end
  return pack({ s.records, s.spilled, s.sums, s.anonymous })
end

local function status_of(flags) return math.floor(flags / 2) % 8 end

local function sum_key(epoch, index, source) return (epoch * 16777216 + index) * 2 + source end

-- Returns whether an allowance period is over: earlier than the one before the latest folded. No vote is cast in it any
-- more (05_reservations.lua), so its sums limit nothing, and only say whom the voter's votes count for.
local function is_over(standing, source, epoch) return source == FREE and epoch < standing.epoch - 1 end

-- the epoch under which the sums of a period are stored
local function kept_epoch(standing, source, epoch) return is_over(standing, source, epoch) and 0 or epoch end

local function slot_at(slots, key)
  for i = 1, #slots, 2 do
    if slots[i] == key then return i end
  end
end

local function largest(a, b)
  if a == nil then return b end
  if a == UNLIMITED or b == UNLIMITED then return UNLIMITED end
  return math.max(a, b)
end

local function exceeds(votes, limit) return limit ~= UNLIMITED and votes > limit end

local function replaces(form, max_participant) return form == BALLOT or (form == RATING and max_participant == 1) end

-- votes against the contest's limit: a ballot is one
local function weight_of(form, choices)
  return form == BALLOT and 1 or choices[1][2]
end
