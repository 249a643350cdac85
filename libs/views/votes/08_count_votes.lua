-- The fold of votes, which decides the status of each; libs/tally/fold.py is the reference in Python.

-- Returns the index of a voter's sum (nil if nothing was used), and whether votes of the voter for its participant
-- count: from its source, from any.
local function find_sum(place, key)
  local own = key % SUMS_OF_EPOCH
  local other = own % 2 == 0 and own + 1 or own - 1  -- of the other source
  local sums, at, here, elsewhere = place.sums, nil, false, false
  if #sums > SCANNED then
    at = sum_at(place, key)
    here, elsewhere = (place.counted[own] or 0) > 0, (place.counted[other] or 0) > 0
    return at, here, here or elsewhere
  end
  for i = 1, #sums, 4 do
    local its = sums[i]
    if its == key then at = i end
    if sums[i + 3] > 0 then
      its = its % SUMS_OF_EPOCH
      if its == own then here = true elseif its == other then elsewhere = true end
    end
  end
  return at, here, here or elsewhere
end

-- sets the latest free vote, from which allowances renew, whatever its status
local function anchor(standing, epoch, at)
  standing.latest = math.max(standing.latest, at)
  if epoch > standing.epoch then
    standing.epoch = epoch
    shares.merge_periods(standing, standing)
  end
end

-- the voter comes to a row, or leaves it: `here` and `anywhere` as of `present` on the side without the vote
local function count_voter(row, source, here, anywhere, anonymous, by)
  local at = 3 + source * 3
  if not here then row[at], row[at + 1] = row[at] + by, row[at + 1] + by * anonymous end
  if not anywhere then
    row[ROW_UNIQUE], row[ROW_ANONYMOUS] = row[ROW_UNIQUE] + by, row[ROW_ANONYMOUS] + by * anonymous
  end
end

-- the votes of a row that a voter uses, and those that count, change by so many; below 0: they are taken back
local function move(c, row, standing, vote, used, active, limit)
  local place = place_of(c, standing, row.index)
  local sums = place.sums
  local key = sum_key(kept_epoch(standing, vote.source, vote.epoch), row.index, vote.source)
  local at, here, anywhere = find_sum(place, key)
  if not at then
    at = #sums + 1
    sums[at], sums[at + 1], sums[at + 2], sums[at + 3] = key, 0, limit, 0
    if place.at then place.at[key] = at end
    if place.own then place.own = nil end
  end
  local counted = sums[at + 3] > 0
  sums[at + 1], sums[at + 3] = sums[at + 1] + used, sums[at + 3] + active
  if used > 0 then sums[at + 2] = largest(sums[at + 2], limit) end
  if place ~= standing then place.changed = true end
  if active == 0 then return end
  if place.at and counted ~= (sums[at + 3] > 0) then
    local own = key % SUMS_OF_EPOCH
    place.counted[own] = (place.counted[own] or 0) + (counted and -1 or 1)
  end
  if active < 0 then at, here, anywhere = find_sum(place, key) end
  count_voter(row.cells, vote.source, here, anywhere, standing.anonymous, active > 0 and 1 or -1)
end

local MILLION, value_of = 1000000, nil

do
  local MOST_VALUE = 100  -- the last value of a distribution of ratings; larger ones count there

  -- a rating's place in the distribution: rounded to a whole number, half up
  function value_of(rating)
    local rounded = rating + MILLION / 2
    return math.min((rounded - rounded % MILLION) / MILLION, MOST_VALUE)
  end
end

-- adds a value to the number, the sum and the millionths at `at`, or subtracts it
local function add_value(sums, at, value, by)
  local rest = value % MILLION
  sums[at], sums[at + 1] = sums[at] + by, sums[at + 1] + by * (value - rest) / MILLION
  sums[at + 2] = sums[at + 2] + by * rest
end

local function rate(c, participant, rating, by)
  local sums = c:rating(participant)
  add_value(sums, 1, rating[1], by)
  local values, at = sums[5], value_of(rating[1]) + 1
  for i = #values + 1, at do values[i] = 0 end
  values[at] = values[at] + by
  local subs, given = sums[4], rating[2]
  local places = #given > 0 and c:places_of(participant)
  for i = 1, #given, 2 do
    local at = places[given[i]]
    if not at then
      at = #subs + 1
      subs[at], subs[at + 1], subs[at + 2], subs[at + 3] = given[i], 0, 0, 0
      places[given[i]] = at
    end
    add_value(subs, at + 1, given[i + 1], by)
  end
end

-- Adds a vote's choices to the used and the counted votes (1 each), or subtracts them (-1). vote: {source, epoch, choices
-- {participant, votes}, rating, weight, and of one that comes, max_p and max_c}
local function move_choices(c, standing, vote, used, active)
  local top = c.top.cells
  local base = 2 + vote.source * 3
  if vote.rating or #vote.choices > 1 then
    c.spent.work = c.spent.work + #vote.choices + (vote.rating and #vote.rating[2] / 2 or 0)
  end
  for i = 1, #vote.choices do
    local name, votes = vote.choices[i][1], vote.choices[i][2]
    local row = c:row(name)
    c:change_row(name, row)
    move(c, row, standing, vote, used * votes, active * votes, vote.max_p)
    row.cells[base], top[base] = row.cells[base] + active * votes, top[base] + active * votes
    if vote.rating and active ~= 0 then rate(c, name, vote.rating, active) end
  end
  if vote.rating and active ~= 0 then rate(c, '', vote.rating, active) end
end

-- the same for the contest, with the vote's weight
local function move_contest(c, standing, vote, used, active)
  move(c, c.top, standing, vote, used * vote.weight, active * vote.weight, vote.max_c)
end

local function set_status(c, voter, standing, record, status)
  local flags = string.byte(record)
  local before = status_of(flags)
  local ids = c.top.cells
  ids[ROW_IDS + before], ids[ROW_IDS + status] = ids[ROW_IDS + before] - 1, ids[ROW_IDS + status] + 1
  local changed = string.char(flags + 2 * (status - before)) .. string.sub(record, 2)
  local digest = vote_records.digest(record)
  local at = vote_records.index(standing.records, digest)
  if at then
    standing.records = string.sub(standing.records, 1, at - 1) .. changed .. string.sub(standing.records, at + #record)
  else
    c:own('spilling')[voter .. digest] = vote_records.spilled(changed)
  end
end

-- Returns whether there is one record more with the voter than may be. They are only counted as long as none has spilled.
local function is_full(standing)
  if standing.spilled ~= '' then return true end
  return #standing.records > INLINE * vote_records.SHORTEST and #vote_records.starts(standing.records) > INLINE
end

-- keeps a new record of that status with the voter, and lets the oldest spill
local function keep(c, voter, standing, status, record)
  local ids = c.top.cells
  ids[ROW_IDS + status] = ids[ROW_IDS + status] + 1
  standing.records = standing.records .. record
  if is_full(standing) then
    local oldest = vote_records.at(standing.records, 1)
    local digest = vote_records.digest(oldest)
    c:own('spilling')[voter .. digest] = vote_records.spilled(oldest) .. standing.spilled
    standing.records = string.sub(standing.records, #oldest + 1)
    standing.spilled = digest
  end
end

local function touch(c, offset, time)
  local top = c.top.cells
  c:keep_former()
  top[ROW_OFFSET] = offset
  if time > top[ROW_TIME] then top[ROW_TIME] = time end
end

-- what a voter has used of a vote's participant (0: of the contest), and the largest limit of it (nil: none yet)
local function used_of(place, vote, index)
  local at = sum_at(place, sum_key(vote.epoch, index, vote.source))
  if at then return place.sums[at + 1], place.sums[at + 2] end
  return 0, nil
end

-- a vote of a period that is over is never admitted: its sums are gone
local function is_admitted(c, standing, vote)
  if is_over(standing, vote.source, vote.epoch) then return false end
  local votes, limit = used_of(standing, vote, 0)
  if exceeds(votes + vote.weight, largest(limit, vote.max_c)) then return false end
  for i = 1, #vote.choices do
    local index = c:row(vote.choices[i][1]).index
    votes, limit = used_of(place_of(c, standing, index), vote, index)
    if exceeds(votes + vote.choices[i][2], largest(limit, vote.max_p)) then return false end
  end
  return true
end

local fold_cast

do
  local function add_sum(sums, key)
    local at = #sums + 1
    sums[at], sums[at + 1], sums[at + 2], sums[at + 3] = key, 0, 0, 0
    return at
  end

  -- Counts a plain vote of a voter with few sums, and returns true if it is admitted: is_admitted, move_choices and
  -- move_contest by one search.
  local function count_plain(c, standing, name, row, source, epoch, votes, max_p, max_c)
    if is_over(standing, source, epoch) then return false end
    local sums, top, cells = standing.sums, c.top.cells, row.cells
    local of_row, of_contest = sum_key(epoch, row.index, source), sum_key(epoch, 0, source)
    local by_row, by_contest = of_row % SUMS_OF_EPOCH, source
    local other = 1 - 2 * source  -- from the key of a source to that of the other one
    local at_row, at_contest, in_row, elsewhere_in_row, in_contest, elsewhere_in_contest
    for i = 1, #sums, 4 do
      local key = sums[i]
      if key == of_row then at_row = i elseif key == of_contest then at_contest = i end
      if sums[i + 3] > 0 then
        key = key % SUMS_OF_EPOCH
        if key == by_row then in_row = true
        elseif key == by_contest then in_contest = true
        elseif key == by_row + other then elsewhere_in_row = true
        elseif key == by_contest + other then elsewhere_in_contest = true end
      end
    end
    local limit_p, limit_c, used_p, used_c = max_p, max_c, votes, votes
    if at_row then limit_p, used_p = largest(sums[at_row + 2], max_p), sums[at_row + 1] + votes end
    if at_contest then limit_c, used_c = largest(sums[at_contest + 2], max_c), sums[at_contest + 1] + votes end
    if exceeds(used_c, limit_c) or exceeds(used_p, limit_p) then return false end
    c:change_row(name, row)
    if #sums == 0 then
      standing.sums = { of_row, votes, max_p, votes, of_contest, votes, max_c, votes }
    else
      if standing.own then standing.own = nil end
      at_row = at_row or add_sum(sums, of_row)
      at_contest = at_contest or add_sum(sums, of_contest)
      sums[at_row + 1], sums[at_row + 2], sums[at_row + 3] = used_p, limit_p, sums[at_row + 3] + votes
      sums[at_contest + 1], sums[at_contest + 2], sums[at_contest + 3] = used_c, limit_c, sums[at_contest + 3] + votes
    end
    local anonymous, base = standing.anonymous, 2 + source * 3
    if not in_row then count_voter(cells, source, in_row, elsewhere_in_row, anonymous, 1) end
    if not in_contest then count_voter(top, source, in_contest, elsewhere_in_contest, anonymous, 1) end
    cells[base], top[base] = cells[base] + votes, top[base] + votes
    return true
  end

  -- replaces the former vote of a slot
  local function replace_vote(c, voter, standing, vote, digest)
    local former = c:find(voter, standing, digest)
    local replaced = c:vote(voter, former)
    local counted = status_of(string.byte(former)) == COUNTED
    vote.epoch = replaced.epoch
    move_choices(c, standing, replaced, -1, counted and -1 or 0)
    set_status(c, voter, standing, former, REPLACED)
    move_choices(c, standing, vote, 1, 1)
    if not counted then move_contest(c, standing, vote, 0, 1) end
  end

  -- Judges a vote in a contest that is not closed, and counts it if it is admitted. Returns its status, and the allowance
  -- period that it counts in.
  local function judge_cast(c, voter, standing, form, digest, row, vote)
    local slot = form ~= PLAIN and (form == RATING and row.index or 0) * 2 + vote.source
    local slots = slot and place_of(c, standing, form == RATING and row.index or 0).slots
    local held = slot and slot_at(slots, slot)
    if held and replaces(form, vote.max_p) then
      replace_vote(c, voter, standing, vote, slots[held + 1])
    elseif is_admitted(c, standing, vote) then
      move_choices(c, standing, vote, 1, 1)
      move_contest(c, standing, vote, 1, 1)
    else
      return OVERRULED, vote.epoch
    end
    if slot then
      held = held or #slots + 1
      slots[held], slots[held + 1] = slot, digest
    end
    return COUNTED, vote.epoch
  end

  -- choices: of a ballot the list of {participant, votes}, else the participant, and its votes
  function fold_cast(state, item)
    local offset, time, contest, voter, digest, content, anonymous, source, form, choices, votes, at, n, max_p, max_c, epoch,
      rem_p, rem_c, next_at, rating = item[2], item[3], item[4], item[5], item[6], item[7], item[8], item[9], item[10],
      item[11], item[12], item[13], item[14], item[15], item[16], item[17], item[18], item[19], item[20], item[21]
    if n < state.fence then
      state.stats.fenced = state.stats.fenced + 1
      return
    end
    local c = state:contest(contest, time)
    state.confirmed[#state.confirmed + 1] = item
    local standing = c:voter(voter, anonymous)
    if standing.records ~= '' and c:find(voter, standing, digest) then
      state.stats.duplicates = state.stats.duplicates + 1
      return
    end
    if source == FREE and (next_at > 0 or standing.latest > 0 or epoch > 0) then
      anchor(standing, epoch, at)
    end
    local row
    if form == BALLOT then
      for i = 1, #choices do c:row(choices[i][1]) end
    else
      row = c:row(choices)
    end
    local status = LATE
    if c.top.cells[ROW_CLOSED] == 0 then
      if form == PLAIN and #standing.sums <= SCANNED and #standing.sums < 4 * OWN then
        status = count_plain(c, standing, choices, row, source, epoch, votes, max_p, max_c) and COUNTED or OVERRULED
      else
        local chosen = row and { { choices, votes } } or choices
        status, epoch = judge_cast(c, voter, standing, form, digest, row, { source = source, epoch = epoch,
          choices = chosen, rating = rating, weight = weight_of(form, chosen), max_p = max_p, max_c = max_c })
      end
      if status == OVERRULED then state.stats.overruled = state.stats.overruled + 1 end
    end
    local detailed = 0
    if form ~= PLAIN then
      detailed = DETAILED
      c:keep_details(voter .. digest, form == BALLOT and choices, rating or false)
    end
    keep(c, voter, standing, status, vote_records.pack(source + 2 * status + detailed, digest, content, at, offset,
      row and row.index or 0, row and votes or 0, rem_p, rem_c, next_at, epoch))
    touch(c, offset, time)
  end
end

-- frees the slot that a vote holds, if any: a ballot's is the contest's, a rating's its participant's
local function free_slot(c, standing, record, vote, digest)
  if vote_records.unpack(record) < DETAILED then return end
  local of_slot = vote.is_ballot and 0 or c:row(vote.choices[1][1]).index
  local slots = place_of(c, standing, of_slot).slots
  for i = 2, #slots, 2 do
    if slots[i] == digest then
      table.remove(slots, i)
      table.remove(slots, i - 1)
      return
    end
  end
end

-- removes a vote; false if nothing changes. An id that was never cast is used up.
local function remove_vote(c, voter, digest, removal)
  local offset, anonymous, content, source, at = removal[1], removal[2], removal[3], removal[4], removal[5]
  local standing = c:voter(voter, anonymous)
  local record = c:find(voter, standing, digest)
  if not record then
    keep(c, voter, standing, REMOVED, vote_records.pack(source + 2 * REMOVED, digest, content, at, offset, 0, 0, UNLIMITED,
      UNLIMITED, 0, 0))
    return true
  end
  local status = status_of(string.byte(record))
  if status ~= COUNTED and status ~= VOIDED then return false end
  local vote, counted = c:vote(voter, record), status == COUNTED and -1 or 0
  move_choices(c, standing, vote, -1, counted)
  move_contest(c, standing, vote, -1, counted)
  set_status(c, voter, standing, record, REMOVED)
  free_slot(c, standing, record, vote, digest)
  return true
end

-- Voids or restores a vote; false if nothing changes. Its allowance stays used and it keeps its slot, so no reservation
-- depends on it. An operation voids a vote once, and restores only votes that it voided itself: so a late copy of
-- either record does not revert newer decisions.
local function void_vote(c, voter, digest, restored, operation)
  local standing = c:voter(voter)
  local record = c:find(voter, standing, digest)
  local from, to, by = COUNTED, VOIDED, -1
  if restored == 1 then from, to, by = VOIDED, COUNTED, 1 end
  if not record or status_of(string.byte(record)) ~= from then return false end
  local operations = c:voids_of(voter .. digest)
  if restored == 1 then
    if operations[#operations] ~= operation then return false end
  else
    for i = 1, #operations do
      if operations[i] == operation then return false end
    end
    operations[#operations + 1] = operation
  end
  local vote = c:vote(voter, record)
  move_choices(c, standing, vote, 0, by)
  move_contest(c, standing, vote, 0, by)
  set_status(c, voter, standing, record, to)
  return true
end

local function void(c, item)
  local offset, voter, digest, restored, operation = item[2], item[5], item[6], item[7], item[8]
  if c.top.cells[ROW_CLOSED] ~= 0 then return c:void_later(voter .. digest .. 'V', offset, restored, operation) end
  return void_vote(c, voter, digest, restored, operation)
end

local function fold_removal(state, item)
  local offset, time, contest, voter, digest, n = item[2], item[3], item[4], item[5], item[6], item[7]
  local removal = { offset, item[8], item[9], item[10], item[11] }
  if n < state.fence then
    state.stats.fenced = state.stats.fenced + 1
    return
  end
  local c = state:contest(contest, time)
  state.confirmed[#state.confirmed + 1] = item
  local changes
  if c.top.cells[ROW_CLOSED] ~= 0 then
    changes = c:wait(voter .. digest, removal)
  else
    changes = remove_vote(c, voter, digest, removal)
  end
  if changes then
    touch(c, offset, time)
  else
    state.stats.duplicates = state.stats.duplicates + 1
  end
end
