-- Exports a partition's ledger by names, each page with its exact position, to compare it with another fold during voting.
-- So only these functions know how it is stored (views/votes/ledger_export.py has the types of the rows).

do
  local exports = {}

  -- the sums of a place (03_voter_sums.lua) as {participant ('' contest), source, epoch, used, largest limit, active, ...}, and
  -- its slots as {participant, source, digest, ...}
  local function named_place(names, place)
    local sums, slots, n = {}, {}, 0
    for i = 1, #place.sums, 4 do
      local rest = math.floor(place.sums[i] / 2)
      sums[n + 1], sums[n + 2], sums[n + 3] = names[rest % 16777216], place.sums[i] % 2, math.floor(rest / 16777216)
      sums[n + 4], sums[n + 5], sums[n + 6] = place.sums[i + 1], place.sums[i + 2], place.sums[i + 3]
      n = n + 6
    end
    for i = 1, #place.slots, 2 do
      slots[#slots + 1], slots[#slots + 2] = names[math.floor(place.slots[i] / 2)], place.slots[i] % 2
      slots[#slots + 1] = place.slots[i + 1]
    end
    return sums, slots
  end

  -- a folded vote; before: the digest of the voter's vote before it, '' of the first
  local function exported(names, record, before)
    local flags, digest, content, at, offset, index, count, rem_p, rem_c, next_at, epoch = vote_records.unpack(record)
    return { digest, status_of(flags), flags % 2, content, at, offset, names[index], count, rem_p, rem_c, next_at, epoch,
      flags >= DETAILED, before }
  end

  local function split_vote(field) return string.sub(field, 1, -DIGEST_SIZE - 1), string.sub(field, -DIGEST_SIZE) end

  function exports.voters(names, voter, packed)
    local standing, votes = unpack_voter(voter, packed), {}
    local sums, slots = named_place(names, standing)
    local before = standing.spilled
    for i, at in ipairs(vote_records.starts(standing.records)) do
      votes[i] = exported(names, vote_records.at(standing.records, at), before)
      before = votes[i][1]
    end
    return { voter, { standing.anonymous, standing.epoch, standing.latest }, sums, slots, votes }
  end

  function exports.shares(names, field, packed, views, contest)
    local voter, share = string.sub(field, 1, -4), shares.unpack(packed)
    shares.merge_periods(unpack_voter(voter, call('HGET', views .. ':voters:' .. contest, voter)), share)
    local sums, slots = named_place(names, share)
    return { voter, false, sums, slots, {} }
  end

  function exports.spill(names, field, value)
    local voter, digest = split_vote(field)
    local record = vote_records.restored(value, digest)
    local size = vote_records.size(record, 1)
    return { voter, false, {}, {}, { exported(names, string.sub(record, 1, size), string.sub(record, size + 1)) } }
  end

  function exports.details(names, field, packed)
    local voter, digest = split_vote(field)
    local choices, rating = unpack(unpack_one(packed))
    for i = 1, choices and #choices or 0, 2 do choices[i] = names[choices[i]] end
    return { voter, digest, choices, rating }
  end

  function exports.voids(_, field, packed)
    local voter, digest = split_vote(field)
    return { voter, digest, unpack_one(packed) }
  end

  function exports.waiting(_, field, packed)
    local change = unpack_one(packed)
    local voter, digest = split_vote(type(change[1]) == 'table' and string.sub(field, 1, -2) or field)
    return { voter, digest, change }
  end

  function exports.counts(_, participant, packed) return { participant, unpack_one(packed)[ROW_MINUTE] or false } end

  function exports.sources(_, field, packed) return { field, unpack_one(packed) } end

  exports.figures, exports.reports = exports.sources, exports.sources

  function exports.releases(_, field, minute) return { field, tonumber(minute) } end

  -- {kind, name, minute, value}: see 17_timeline.lua
  function exports.minutes(names, member)
    local kind, size, name = string.sub(member, 1, 1), 4, nil
    if kind == 'r' then
      name = names[(struct.unpack('>I3', member, 2))]
    elseif kind == 's' then
      size = string.find(member, '\0', 1, true)
      name = string.sub(member, 2, size - 1)
    else
      size = struct.unpack('>I4', member, 2) + 5
      name = string.sub(member, 6, size)
    end
    return { kind, name, (struct.unpack('>I4', member, size + 1)), unpack_one(string.sub(member, size + 5)) }
  end

  -- ARGV: a part of the contest's views (a name in `exports`), contest, cursor ('0' to begin), how many entries about,
  -- generation ('' the live one). {log, offset, next cursor ('0' at the end), {row, ...}}
  library.register_read('votes_export', function(keys, args)
    local views, export, rows = view(keys[1], args[5]), exports[args[1]], {}
    local names = names_by_index(views, args[2])
    local log, offset = position(views)
    local scan = args[1] == 'minutes' and 'ZSCAN' or 'HSCAN'
    local page = call(scan, views .. ':' .. args[1] .. ':' .. args[2], args[3], 'COUNT', args[4])
    for i = 1, #page[2], 2 do rows[#rows + 1] = export(names, page[2][i], page[2][i + 1], views, args[2]) end
    return pack({ log, offset, page[1], rows })
  end)
end
