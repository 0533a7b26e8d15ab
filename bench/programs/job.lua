-- SPDX-License-Identifier: MIT
-- A Lua job of the benchmark suite: tables, strings and closures that come and go.
local seed = 42
local function random(below)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed % below
end

local function words(count)
  local list = {}
  for i = 1, count do
    list[i] = string.rep(string.char(97 + random(26)), 3 + random(20)) .. i
  end
  table.sort(list)
  return list
end

local function tree(depth)
  if depth == 0 then return { leaf = true } end
  return { left = tree(depth - 1), right = tree(depth - 1), label = "d" .. depth }
end

local total = 0
for round = 1, 12 do
  total = total + #table.concat(words(20000), ",")
  local root = tree(14)
  local calls = {}
  for i = 1, 20000 do
    calls[i] = function() return i + round + (root.label and 1 or 0) end
  end
  total = total + calls[20000]()
end
print(total)
