#!/bin/bash
# lua: coroutines, tables, a pipe.
# needs: lua5.4
# version: lua5.4 -v
# setup
cat > a.lua <<'END'
local c = coroutine.wrap(function() for i = 1, 5 do coroutine.yield(i * i) end end)
for i = 1, 5 do print(c()) end
local t = {}
for i = 1, 200000 do t[#t + 1] = tostring(i) end
print(#table.concat(t))
local f = io.popen("echo from a pipe") print(f:read("a")) f:close()
os.exit(6)
END
# record
lua5.4 a.lua; echo "status $?"
# check
grep -q '^status 6$' "$OUT"
