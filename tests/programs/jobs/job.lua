-- SPDX-License-Identifier: MIT
-- Strings, tables, trees, coroutines and the garbage collector.
local seed = 11
local function number() seed = (seed * 1103515245 + 12345) % 2147483648 return seed end
local words, counts = {}, {}
for i = 1, 300000 do
  local word = string.format("k%05d", number() % 30000)
  words[#words + 1] = word .. string.rep("z", i % 30)
  counts[word] = (counts[word] or 0) + 1
end
table.sort(words)
local joined = table.concat(words, " ")
local replaced, n = joined:gsub("k(%d+)z", "%1")
local keys = {}
for k in pairs(counts) do keys[#keys + 1] = k end
table.sort(keys, function(a, b) if counts[a] ~= counts[b] then return counts[a] > counts[b] end return a < b end)
print(#joined, #replaced, n, #keys, keys[1], counts[keys[1]])
local function tree(depth) if depth == 0 then return {} end return {tree(depth - 1), tree(depth - 1)} end
local function count(t) return t[1] and 1 + count(t[1]) + count(t[2]) or 1 end
for round = 1, 6 do io.write(count(tree(15)), " ") end
local total = 0
for i = 1, 2000 do
  local co = coroutine.wrap(function(x) for j = 1, 20 do x = x + coroutine.yield(x) end return x end)
  co(i) for j = 1, 10 do total = total + co(j) end
end
print(total)
words = nil joined = nil replaced = nil collectgarbage()
print(collectgarbage("count") < 60000)
