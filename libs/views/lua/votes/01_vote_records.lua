-- Bytes of a vote's record. Its first byte has the flags and the form: index and count take a byte each or three, what remains a
-- byte each or four, and the next free vote seven or none.

local vote_records = { SHORTEST = 37 }  -- functions, and the bytes of the shortest record

do
  local FORM = 2 * DETAILED
  local FORMS, SIZES = {}, {}
  for long_choice = 0, 1 do
    for long_rest = 0, 1 do
      for renews = 0, 1 do
        local form = long_choice + 2 * long_rest + 4 * renews
        FORMS[form] = '>Bc12c8I7I5' .. (long_choice == 1 and 'I3I3' or 'BB') .. (long_rest == 1 and 'i4i4' or 'bb')
          .. (renews == 1 and 'I7' or '')
        SIZES[form] = vote_records.SHORTEST + 4 * long_choice + 6 * long_rest + 7 * renews
      end
    end
  end

  function vote_records.pack(flags, digest, content, at, offset, index, count, rem_p, rem_c, next_at)
    local form = (index > 255 or count > 255) and 1 or 0
    if rem_p > 127 or rem_c > 127 then form = form + 2 end
    if next_at > 0 then form = form + 4 end
    return struct.pack(FORMS[form], flags + FORM * form, digest, content, at, offset, index, count, rem_p, rem_c, next_at)
  end

  local function members(form, flags, digest, content, at, offset, index, count, rem_p, rem_c, next_at)
    return flags - FORM * form, digest, content, at, offset, index, count, rem_p, rem_c, form >= 4 and next_at or 0
  end

  -- the members as they were packed, of the record at the beginning
  function vote_records.unpack(record)
    local form = math.floor(string.byte(record) / FORM)
    return members(form, struct.unpack(FORMS[form], record))
  end

  -- the size of the record that begins at an index
  function vote_records.size(records, at) return SIZES[math.floor(string.byte(records, at) / FORM)] end
end

function vote_records.digest(record) return string.sub(record, 2, 1 + DIGEST_SIZE) end

function vote_records.at(records, at) return string.sub(records, at, at + vote_records.size(records, at) - 1) end

-- indexes at which the records begin
function vote_records.starts(records)
  local starts, at = {}, 1
  while at <= #records do
    starts[#starts + 1] = at
    at = at + vote_records.size(records, at)
  end
  return starts
end

-- the index of a vote id's record, or nil
function vote_records.index(records, digest)
  if not string.find(records, digest, 1, true) then return nil end
  local at = 1
  while at <= #records do
    if string.sub(records, at + 1, at + DIGEST_SIZE) == digest then return at end
    at = at + vote_records.size(records, at)
  end
end

-- the record of a vote id, or nil
local function find_record(views, contest, voter, standing, digest)
  local at = vote_records.index(standing.records, digest)
  if at then return vote_records.at(standing.records, at) end
  if standing.spilled ~= 0 then
    return call('HGET', views .. ':spill:' .. contest, voter .. digest) or nil
  end
end
