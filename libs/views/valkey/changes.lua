-- The latest changes of partitions by this library's functions, in the server's memory: watchers of many partitions read again
-- only those that changed (watched_reads.py). It lacks what these functions do not do: changes by another version's, and
-- keys that were deleted or restored. So watchers also read all partitions in turn.

do
  local KEPT = 4096
  local lists = { views = { number = 0 }, gates = { number = 0 } }

  -- Notes a change of a partition's views (folds, swaps), or of its gate.
  function library.note_change(kind, base)
    local list = lists[kind]
    list.number = list.number + 1
    list[list.number % KEPT + 1] = base
  end

  local reserved = {}  -- base -> second of the latest note

  -- Notes, once a second, that a partition has reservations. now: us
  function library.note_reservation(base, now)
    local second = math.floor(now / 1000000)
    if reserved[base] ~= second then
      reserved[base] = second
      library.note_change('gates', base)
    end
  end

  -- Returns a cursor, and the bases of the partitions that changed since that `cursor`, each once; nil if they are not known.
  -- `server` identifies the memory that the cursor is of.
  function library.changes_since(kind, cursor, server)
    local list, head = lists[kind], server .. ' '
    local now = head .. list.number
    local since = string.sub(cursor, 1, #head) == head and tonumber(string.sub(cursor, #head + 1))
    if not since or list.number - since > KEPT then return now end
    local bases, found = {}, {}
    for i = since + 1, list.number do
      local base = list[i % KEPT + 1]
      if not found[base] then
        found[base], bases[#bases + 1] = true, base
      end
    end
    return now, bases
  end
end
