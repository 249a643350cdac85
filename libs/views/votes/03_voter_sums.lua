-- Storage of a voter's sums and slots. The contest's, and those of the first OWN participants that the votes used, are with
-- the voter. Those of all others are in shares, each of SHARE successive indexes. So a vote costs the same however many
-- participants its voter has voted for, and a voter of few is one value.

local OWN, SHARE = 50, 16
local SCANNED = 32              -- numbers of a list of sums that are searched one by one
local SUMS_OF_EPOCH = 33554432  -- keys of sums of one epoch: see sum_key
local shares = {}               -- functions; a `place` is a voter's standing or a share: either has sums and slots

function shares.field(voter, number) return voter .. struct.pack('>I3', number) end

function shares.number(index) return math.floor((index - 1) / SHARE) end

function shares.unpack(packed)
  local its = packed and unpack_one(packed) or { {} }
  return { sums = its[1], slots = its[2] or {} }
end

function shares.pack(share) return pack(#share.slots > 0 and { share.sums, share.slots } or { share.sums }) end

-- where each of many sums is, and by participant and source the number of those with votes that count
local function index_sums(place)
  local sums, at, counted = place.sums, {}, {}
  for i = 1, #sums, 4 do
    at[sums[i]] = i
    if sums[i + 3] > 0 then
      local own = sums[i] % SUMS_OF_EPOCH
      counted[own] = (counted[own] or 0) + 1
    end
  end
  place.at, place.counted = at, counted
end

-- index of a sum (key, used, limit, active); nil if nothing was used
local function sum_at(place, key)
  local sums = place.sums
  if #sums > SCANNED then
    if not place.at then index_sums(place) end
    return place.at[key]
  end
  for i = 1, #sums, 4 do
    if sums[i] == key then return i end
  end
end

-- merges the sums of the voter's periods that are over
function shares.merge_periods(standing, place)
  local merged, places, sums = {}, {}, place.sums
  for i = 1, #sums, 4 do
    local epoch, rest = math.floor(sums[i] / SUMS_OF_EPOCH), sums[i] % SUMS_OF_EPOCH
    local key = kept_epoch(standing, rest % 2, epoch) * SUMS_OF_EPOCH + rest
    local at = places[key]
    if at then
      merged[at + 1], merged[at + 3] = merged[at + 1] + sums[i + 1], merged[at + 3] + sums[i + 3]
      merged[at + 2] = largest(merged[at + 2], sums[i + 2])
    else
      at = #merged + 1
      places[key] = at
      merged[at], merged[at + 1], merged[at + 2], merged[at + 3] = key, sums[i + 1], sums[i + 2], sums[i + 3]
    end
  end
  place.sums, place.at = merged, nil
end

-- true if the voter has all the participants that a voter's own value holds; `own` are these
function shares.are_used(standing)
  if #standing.sums < 4 * OWN then return false end
  if not standing.own then
    standing.own, standing.owned = {}, 0
    for i = 1, #standing.sums, 4 do
      local index = math.floor(standing.sums[i] / 2) % 16777216
      if index > 0 and not standing.own[index] then
        standing.own[index], standing.owned = true, standing.owned + 1
      end
    end
  end
  return standing.owned >= OWN
end

-- The place of a participant's sums and slots (0: of the contest's). A share is read by c:read_share(voter, number) on
-- first use, and the periods merged that were over since it was written.
local function place_of(c, standing, index)
  if index == 0 or #standing.sums < 4 * OWN or not shares.are_used(standing) or standing.own[index] then
    return standing
  end
  standing.shares = standing.shares or {}
  local number = shares.number(index)
  local share = standing.shares[number]
  if not share then
    share = shares.unpack(c:read_share(standing.voter, number))
    standing.shares[number] = share
  end
  if standing.epoch > (share.epoch or 1) then
    shares.merge_periods(standing, share)
    share.epoch = standing.epoch
  end
  return share
end
