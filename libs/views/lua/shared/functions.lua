-- Registration of functions. During an upgrade processes of two versions run, so libraries of both are loaded: the name of
-- each function ends with the version, the hash of all sources (function_libraries.py).

-- Uses of this library since the server loaded it. A version that no process uses any more is deleted (function_expiry.py).
library.uses = 0

function library.register(name, callback) redis.register_function(name .. '_' .. library.version, callback) end

function library.register_read(name, callback)
  redis.register_function({ function_name = name .. '_' .. library.version, callback = callback, flags = { 'no-writes' } })
end
