-- The views of one partition of the catalogue log, under one hash tag: KEYS[1] is "<namespace>:{<tag of p>}", `base` is the
-- key prefix of a generation (generations/generations.lua).
--   base:position                                  hash  log, offset, time (ms, running maximum of the log's), clock (us,
--                                                  of the last change), keys (offset of the last key event), poison
--   base:records:<account>:<resource>              hash  key -> packed envelope
--   base:created:<account>:<resource>:<parent key> zset  key by creation (us): the list; parent key '' for the top
--   base:updated:<account>:<resource>:<parent key> zset  key by last change (us)
--   base:sorted:<account>:<resource>:<parent key>  zset  sort key NUL key, all of score 0; where records have a sort key
--   base:numbers:<account>:<resource>              hash  parent key -> last running number given
--   base:kinds:<account>:<resource>:<key>          set   resources that have records under this one
--   base:referrers:<account>:<resource>:<key>      zset  `Referrer`s, the records that refer to it firmly
--   base:doomed                                    zset  account NUL parent resource NUL resource NUL parent key of lists
--                                                  whose records were deleted with their parent, and are still to be
--                                                  removed; of a contest by the number of those with settled references
--   base:offers:<account>                          hash  resource NUL key of a part -> 1, where a record offers it
--   base:owners:<resource>                         hash  key -> account; of keys that accounts choose, one that has it
--   base:sizes                                     hash  account -> bytes and number of its records, as two numbers
--   base:contest_sizes:<account>                   hash  contest -> the same of the contest and the records under it
--   base:config                                    hash  contest -> offset of the last event that names it
--   base:due                                       zset  account NUL contest, by the time of its next due step (us)
--   base:keys                                      hash  key id -> packed `ApiKey` (contracts/catalogue_events.py), by the
--                                                  names of its members, without the id
--   base:descendants:<key id>                      set   ids of the keys that descend from this one
--   base:outcomes                                  hash  command id -> packed `KeptOutcome`
--   base:outcome_times                             zset  account NUL number NUL command id, by log time (ms)
--   base:outcome_numbers                           hash  account -> number of its commands with an outcome
--   base:outcome_ring:<account>                    hash  number modulo the most that are kept -> member of outcome_times
--   base:quarantine                                hash  offset -> reason
-- An envelope is a `StoredRecord` (stored_records.py), which writes all of this; JSON stays text. Numbers stay below 2^53.
-- A deleted contest becomes a record of the resource DELETED, created when the contest was, and its children stay where they
-- are without references: no read or write finds them unless their contest is restored.
-- created and updated are the event's `at`, never ahead of the broker's clock and growing strictly: a list's cursor.

local PARENT_RESOURCE, PARENT = 5, 6
local SCHEMA = 11      -- raised with every change of the stored layout, or of the fold's result for the same log
local DELETED = 'deleted_contests'

local function records_of(base, account, resource) return base .. ':records:' .. account .. ':' .. resource end

local function find(base, account, resource, key) return read_one(records_of(base, account, resource), key) end

local function has_doomed(base) return call('EXISTS', base .. ':doomed') == 1 end

local function hides_records(base, account)
  return has_doomed(base) or call('EXISTS', records_of(base, account, DELETED)) == 1
end

-- true unless a parent of this record is deleted
local function is_there(base, account, envelope)
  while envelope and envelope[PARENT] ~= '' do
    envelope = find(base, account, envelope[PARENT_RESOURCE], envelope[PARENT])
  end
  return envelope ~= nil
end

local generations = generations_of('catalogue', SCHEMA, write_all, { is_unfinished = has_doomed })
