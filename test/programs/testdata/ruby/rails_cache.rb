# The cache store of Rails, as those who count use it:
#
#     ruby rails_cache.rb host:port database

require 'active_support'
require 'active_support/cache'
require 'active_support/cache/redis_cache_store'
require 'active_support/core_ext/numeric/time'
require_relative 'drive'

cache = ActiveSupport::Cache::RedisCacheStore.new(url: redis_url, timeout: 10, namespace: 'app', error_handler: ->(exception:, **) { raise exception })

# What rate_limit of Action Controller does since Rails 7.2.
5.times do
  count = cache.increment('rate-limit:sessions:ann', 1, expires_in: 1.minute)
  show '3 a minute', count > 3 ? 429 : 200, count
end
show 'decrement', cache.decrement('left', 2, expires_in: 1.minute), cache.increment('left', 5)
show 'raw', cache.write('raw', 42, raw: true, expires_in: 1.minute), cache.read('raw', raw: true).inspect, cache.increment('raw')
show 'unless exist', cache.write('once', 1, raw: true, unless_exist: true, expires_in: 1.minute), cache.write('once', 2, raw: true, unless_exist: true)
show 'several', cache.read_multi('raw', 'none', raw: true), cache.write_multi({ 'a' => 1, 'b' => 2 }, raw: true).class
show 'delete', cache.delete('raw'), cache.delete('raw')
counts = Array.new(64) { Thread.new { Array.new(3) { cache.increment('all', 1, expires_in: 1.minute) } } }.flat_map(&:value)
show '64 clients, 3 each', counts.sort == (1..192).to_a
show 'matched', cache.delete_matched('a*').class, cache.read('all', raw: true).inspect
