# SPDX-License-Identifier: MIT
# A Ruby job of the benchmark suite: JSON there and back, strings sorted, hashes and arrays that come and go.
require 'json'

def records(count, rng)
  Array.new(count) { |i| { 'id' => i, 'name' => "user#{rng.rand(100_000)}", 'scores' => Array.new(6) { rng.rand } } }
end

def words(count, rng)
  Array.new(count) { (0...12).map { (97 + rng.rand(26)).chr }.join }.sort.uniq.size
end

def work
  rng = Random.new(42)
  list = records(12_000, rng)
  3.times { list = JSON.parse(JSON.generate(list)) }
  by_name = list.group_by { |r| r['name'][0, 6] }
  text = list.map { |r| r['name'] * 20 }.join(',')
  [list.size, by_name.size, text.split(',').size, words(50_000, rng)]
end

p work
GC.start
if ENV['HAKMEM_BENCH_REST']
  File.write(ENV['HAKMEM_BENCH_REST'], '')
  sleep 2.2
end
