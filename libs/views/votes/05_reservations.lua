-- Reservations: allowances that a voter holds between the decision and the fold of the recorded vote.

local P_DIGEST, P_CONTENT, P_SOURCE, P_WEIGHT, P_AT, P_REMAINING_P, P_REMAINING_C, P_EPOCH, P_NEXT, P_ATTEMPTS,
  P_CONFIG, P_MAX_P, P_MAX_C, P_FORM, P_CHOICES, P_SLOT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
local REMOVAL = 'R'       -- stands before the digest of a vote whose removal is pending
local NO_SOURCE = -1      -- of a removal, which holds no allowance
local DAY_US = 86400000000
local MOST_PENDING = 256  -- of one voter: all are read and written together

local function pending_field(contest, voter) return contest .. '\0' .. voter end

local function find_pending(list, digest)
  for i = 1, #list do
    if list[i][P_DIGEST] == digest then return list[i] end
  end
end

-- The reservations of one call: read together, and written together by close. Their methods are shared, since a call may be
-- of many partitions.
local open_pending

do
  local Pending = {}
  Pending.__index = Pending

  function open_pending(base, fields)
    return setmetatable({ base = base, packed = read_fields(base .. ':pending', fields), lists = {}, changed = {},
      added = {}, dropped = {} }, Pending)
  end

  function Pending:list(field)
    local list = self.lists[field]
    if not list then
      list = self.packed[field] and unpack_one(self.packed[field]) or {}
      self.lists[field] = list
    end
    return list
  end

  function Pending:touch(field) self.changed[field] = true end

  function Pending:add(field, p)
    local list, added = self:list(field), self.added
    list[#list + 1] = p
    added[#added + 1] = string.format('%.0f', p[P_AT])
    added[#added + 1] = field .. '\0' .. p[P_DIGEST]
    self.changed[field] = true
  end

  -- with one_attempt, only when no other attempt to record it is left
  function Pending:drop(field, digest, one_attempt)
    local list = self:list(field)
    for i = 1, #list do
      if list[i][P_DIGEST] == digest then
        self.changed[field] = true
        if one_attempt and list[i][P_ATTEMPTS] > 1 then
          list[i][P_ATTEMPTS] = list[i][P_ATTEMPTS] - 1
          return 0
        end
        table.remove(list, i)
        self.dropped[#self.dropped + 1] = field .. '\0' .. digest
        return 1
      end
    end
    return 0
  end

  function Pending:close()
    local kept, gone = {}, {}
    for field in pairs(self.changed) do
      local list = self.lists[field]
      if #list == 0 then
        gone[#gone + 1] = field
      else
        kept[#kept + 1] = field
        kept[#kept + 1] = pack(list)
      end
    end
    if #gone > 0 then call('HDEL', self.base .. ':pending', unpack(gone)) end
    if #kept > 0 then call('HSET', self.base .. ':pending', unpack(kept)) end
    if #self.dropped > 0 then call('ZREM', self.base .. ':due', unpack(self.dropped)) end
    if #self.added > 0 then call('ZADD', self.base .. ':due', unpack(self.added)) end
  end
end

local R_RESERVED, R_JOINED, R_KNOWN, R_REUSED, R_SHUT, R_STALE, R_NOT_RUNNING, R_REFUSED, R_PARTICIPANT_LIMIT,
  R_CONTEST_LIMIT = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9

-- every attempt records the same: also the choices, configuration and limits by which the first one was admitted
local function granted(kind, n, p)
  return { kind, p[P_AT], n, p[P_REMAINING_P], p[P_REMAINING_C], p[P_NEXT], p[P_EPOCH], p[P_CONFIG], p[P_MAX_P],
    p[P_MAX_C], p[P_FORM], p[P_CHOICES] }
end

-- the names of participants by their indexes, each read on first use; '' of the contest, and of one that is not there
local function names_by_index(views, contest)
  return setmetatable({ [0] = '' }, { __index = function(names, index)
    names[index] = call('HGET', views .. ':names:' .. contest, index) or ''
    return names[index]
  end })
end

-- adds the choices of a ballot, as participant, votes, ...
local function with_choices(reply, views, contest, field)
  local chosen = read_one(views .. ':details:' .. contest, field)[1] or {}
  local names = names_by_index(views, contest)
  for i = 1, #chosen, 2 do reply[#reply + 1], reply[#reply + 2] = names[chosen[i]], chosen[i + 1] end
  return reply
end

-- the data of one contest for reserve: its voters, the configuration in force, the last reopening, participants' indexes
local contest_view

do
  local View = {}
  View.__index = View

  function contest_view(base, views, contest, voters)
    return setmetatable({ views = views, contest = contest, packed = read_fields(views .. ':voters:' .. contest, voters),
      standings = {}, indexes = { [''] = 0 }, uses = {},
      in_force = tonumber(call('HGET', base .. ':config', contest) or UNLIMITED) }, View)
  end

  function View:standing(voter)
    local standing = self.standings[voter]
    if not standing then
      standing = unpack_voter(voter, self.packed[voter])
      self.standings[voter] = standing
    end
    return standing
  end

  function View:read_share(voter, number)
    return call('HGET', self.views .. ':shares:' .. self.contest, shares.field(voter, number))
  end

  function View:reopened()
    return top_of(self.views, self.contest)[ROW_REOPENED] or 0
  end

  function View:index(participant)
    local index = self.indexes[participant]
    if index == nil then
      local row = read_one(self.views .. ':counts:' .. self.contest, participant)
      index = row and row[1] or false
      self.indexes[participant] = index
    end
    return index
  end
end

-- when the free allowance renews if the latest free vote was at `latest` (us); with both rules, the later
local function renewal_after(latest, cooldown, days)
  local at = latest + cooldown
  return days > 0 and math.max(at, (math.floor(latest / DAY_US) + days) * DAY_US) or at
end

-- When the latest free vote was accepted, by the records kept with the voter: for contests that renew only since
-- then. Where other votes have pushed the free ones out, the oldest that is left: it is no earlier.
local function latest_free(standing)
  local latest, starts = 0, vote_records.starts(standing.records)
  for i = #starts, 1, -1 do
    local flags, _, _, accepted = vote_records.unpack(string.sub(standing.records, starts[i]))
    if flags % 2 == FREE then latest = math.max(latest, accepted) end
    if i == 1 and latest == 0 and standing.spilled ~= '' then return accepted end
  end
  return latest
end

-- the allowance period that a free vote falls into at `now`, and when the next begins (nil: it begins with this vote)
local function period(standing, use, cooldown, days, now)
  local epoch, latest = standing.epoch, standing.latest
  if latest == 0 and cooldown + days > 0 then latest = latest_free(standing) end
  epoch, latest = math.max(epoch, use.epoch), math.max(latest, use.latest)
  if latest == 0 or cooldown + days == 0 then return epoch end
  local renews_at = renewal_after(latest, cooldown, days)
  if now >= renews_at then return epoch + 1 end
  return epoch, renews_at
end

-- the digest of the folded vote in a slot, or nil
local function holder(c, standing, slot, source)
  local index = c:index(slot)
  if not index then return nil end
  local slots = place_of(c, standing, index).slots
  local at = slot_at(slots, index * 2 + source)
  return at and slots[at + 1]
end

local function place_of_slot(source, epoch, slot) return epoch .. ':' .. source .. ':' .. slot end

-- The allowance that one of a voter's reservations currently uses: none if it replaces a folded vote, or if another one
-- of its slot and period is before it. `taken`: what the first of each slot uses.
local function current_weight(c, standing, p, taken)
  local weight, slot, source = p[P_WEIGHT], p[P_SLOT], p[P_SOURCE]
  if slot then
    local place = place_of_slot(source, p[P_EPOCH], slot)
    if taken[place] or holder(c, standing, slot, source) then weight = 0 end
    taken[place] = taken[place] or weight
  end
  return weight
end

-- adds a reservation to what all of a voter use
local function add_use(use, c, standing, p)
  use.by_digest[p[P_DIGEST]] = p
  local source, epoch = p[P_SOURCE], p[P_EPOCH]
  if source == FREE then
    use.epoch, use.latest = math.max(use.epoch, epoch), math.max(use.latest, p[P_AT])
    use.oldest = math.min(use.oldest, epoch)
  end
  local weight, key = current_weight(c, standing, p, use.taken), source .. ':' .. epoch
  if source == NO_SOURCE then return end
  local of_participant = key .. ':' .. p[P_CHOICES][1][1]
  use.votes[key] = (use.votes[key] or 0) + weight
  use.votes[of_participant] = (use.votes[of_participant] or 0) + weight
end

local NOTHING_USED = { by_digest = {}, epoch = 0, latest = 0, oldest = 2 ^ 53, votes = {}, taken = {} }

-- Allowance used by a voter's reservations, computed once in a call: their digests; of free votes the latest period, the latest
-- time, and the earliest period; votes by source and period, and by participant; and see current_weight.
local function use_of(c, standing, list)
  if #list == 0 then return NOTHING_USED end
  local use = c.uses[standing.voter]
  if not use then
    use = { by_digest = {}, epoch = 0, latest = 0, oldest = 2 ^ 53, votes = {}, taken = {} }
    for i = 1, #list do add_use(use, c, standing, list[i]) end
    c.uses[standing.voter] = use
  end
  return use
end

-- The votes that a voter has used, folded and pending, of participant and contest, without reservations of the same
-- slot: of these and this one, a later record replaces an earlier one.
local function used_up(c, standing, use, source, epoch, participant, slot)
  local function folded(name)
    if #standing.sums == 0 then return 0 end
    local index = c:index(name)
    if not index then return 0 end
    local place = place_of(c, standing, index)
    local at = sum_at(place, sum_key(epoch, index, source))
    return at and place.sums[at + 1] or 0
  end
  if use == NOTHING_USED then return folded(participant), folded('') end
  local key = source .. ':' .. epoch
  local own = slot and use.taken[place_of_slot(source, epoch, slot)] or 0
  return folded(participant) + (use.votes[key .. ':' .. participant] or 0) - own,
    folded('') + (use.votes[key] or 0) - own
end

local function reserve_one(gate, now, r, c, pending, views)
  local contest, voter, digest, content, version, from, till, reopened, refused, source, form, choices, max_p, max_c,
    cooldown, days = r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[12], r[13], r[14], r[15], r[16]
  local standing = c:standing(voter)
  local record = find_record(views, contest, voter, standing, digest)
  if record then
    local flags, _, hash, at, offset, _, _, rem_p, rem_c, next_at = vote_records.unpack(record)
    if hash ~= content then return { R_REUSED } end
    local known = { R_KNOWN, at, gate.n, rem_p, rem_c, next_at, offset, status_of(flags) }
    return flags < DETAILED and known or with_choices(known, views, contest, voter .. digest)
  end
  local field = pending_field(contest, voter)
  local list = pending:list(field)
  local use = use_of(c, standing, list)
  local first = use.by_digest[digest]
  if first then
    if first[P_CONTENT] ~= content then return { R_REUSED } end
    first[P_ATTEMPTS] = first[P_ATTEMPTS] + 1
    pending:touch(field)
    return granted(R_JOINED, gate.n, first)
  end
  if #list >= MOST_PENDING then return { R_SHUT } end
  if c.in_force ~= version then return { R_STALE, c.in_force, gate.n } end
  if from == UNLIMITED or now < from or (till ~= UNLIMITED and now >= till) then return { R_NOT_RUNNING, now } end
  if reopened > 0 and c:reopened() < reopened then return { R_SHUT } end  -- a mark of the closing could come, and count
  if refused then return { R_REFUSED, now } end
  local epoch, renews_at = 0, nil
  if source == FREE then epoch, renews_at = period(standing, use, cooldown, days, now) end
  -- While a free vote of an earlier period is pending, no period after the next begins. So each vote in the log is of the
  -- latest period folded or the one before, and the fold may merge the sums of all earlier ones.
  if source == FREE and use.oldest < epoch - 1 then return { R_SHUT } end
  local participant, weight = choices[1][1], weight_of(form, choices)
  local slot = false
  if replaces(form, max_p) then slot = form == RATING and participant or '' end
  local used_p, used_c = used_up(c, standing, use, source, epoch, participant, slot)
  local held = slot and holder(c, standing, slot, source)
  if held then
    -- after its removal this vote would not replace it, but use the allowance of its own period
    if use.by_digest[REMOVAL .. held] then return { R_SHUT } end
    weight = 0
  elseif form ~= BALLOT and exceeds(used_p + weight, max_p) then
    return { R_PARTICIPANT_LIMIT, max_p, used_p, not exceeds(weight, max_p) and renews_at or 0, now }
  elseif exceeds(used_c + weight, max_c) then
    return { R_CONTEST_LIMIT, max_c, used_c, not exceeds(weight, max_c) and renews_at or 0, now }
  end
  local rem_p = max_p == UNLIMITED and UNLIMITED or math.max(0, max_p - used_p - weight)
  local rem_c = max_c == UNLIMITED and UNLIMITED or math.max(0, max_c - used_c - weight)
  local next_at = source == FREE and cooldown + days > 0 and renewal_after(now, cooldown, days) or 0
  local p = { digest, content, source, weight_of(form, choices), now, rem_p, rem_c, epoch, next_at, 1, version, max_p,
    max_c, form, choices, slot }
  pending:add(field, p)
  if use ~= NOTHING_USED then add_use(use, c, standing, p) end
  return granted(R_RESERVED, gate.n, p)
end

-- Whether the attempt keeps its use of an address's limit: its vote is pending, or counts.
local function keeps_use(kind, status)
  return kind <= R_JOINED or (kind == R_KNOWN and (status == COUNTED or status == REPLACED or status == VOIDED))
end

do
  -- Decides a partition's packed list of requests, each after those before it; the packed list of replies. Where one of a
  -- voter is left undecided, so are those after it: they could take its place. A request may name a counter of an address
  -- on this server, and the arguments of its use: a full one refuses it, and its reply is {result of the use, reply}, or
  -- the reply alone where it has given its use back.
  local function reserve_in(base, run, packed)
    local gate = load_gate(base, run)
    local requests, replies = unpack_one(packed), {}
    if not gate.open then
      for i = 1, #requests do replies[i] = { R_SHUT } end
      return pack(replies)
    end
    local now = next_moment(gate)
    local views = view(base)
    local fields, known, named, voters, contests = {}, {}, {}, {}, {}
    for i = 1, #requests do
      local contest, voter = requests[i][1], requests[i][2]
      local field = pending_field(contest, voter)
      fields[i] = field
      if not known[field] then
        known[field], named[#named + 1] = true, field
        voters[contest] = voters[contest] or {}
        table.insert(voters[contest], voter)
      end
    end
    for contest, list in pairs(voters) do contests[contest] = contest_view(base, views, contest, list) end
    local pending = open_pending(base, named)
    local given, undecided = false, {}
    for i = 1, #requests do
      local r = requests[i]
      local used = r[17] and addresses.use(r[17], r[18])
      if used and used[1] == addresses.FULL then r[9] = true end
      local reply = undecided[fields[i]] or reserve_one(gate, now, r, contests[r[1]], pending, views)
      if reply[1] == R_SHUT or reply[1] == R_STALE then undecided[fields[i]] = reply end
      given = given or reply[1] == R_RESERVED
      local gives = used and used[1] ~= addresses.FULL and not keeps_use(reply[1], reply[8])
      if gives then used = addresses.give(r[17], r[18][3]) end
      replies[i] = used and { used, reply } or reply
    end
    pending:close()
    if given then library.note_reservation(base, now) end
    call('HSET', base .. ':gate', 'clock', string.format('%.0f', given and now or now - 1))
    return pack(replies)
  end

  -- KEYS: partitions, several only where one server has them all, then the counters of addresses in requests. ARGV: of each
  -- partition its packed list of requests. The packed list of replies of each, or its error.
  library.register('votes_reserve', function(keys, args) return library.each_key(keys, args, reserve_in) end)
end

-- ARGV: contest, voter, digest, incarnation. Takes back one attempt that the log definitely refused; the
-- reservation goes with its last attempt. Under another incarnation it is gone already: that one is another's.
-- KEYS[2], ARGV[5]: counter of an address on this server, and digest of the taker, whose use of it the attempt gives back.
library.register('votes_release', function(keys, args)
  if keys[2] then addresses.give(keys[2], args[5]) end
  local gate = load_gate(keys[1])
  if not gate.open or gate.n ~= tonumber(args[4]) then return 0 end
  local field = pending_field(args[1], args[2])
  local pending = open_pending(keys[1], { field })
  local dropped = pending:drop(field, args[3], true)
  pending:close()
  return dropped
end)
