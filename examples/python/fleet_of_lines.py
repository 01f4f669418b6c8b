"""From looks of `hitm live lines` on many hosts to what costs the fleet most: which member, which hosts, since when.

usage: fleet_of_lines.py [FILES]      (looks/*.parquet; docs/formats/views.md has the columns)
"""

import sys

import duckdb

FILES = sys.argv[1] if len(sys.argv) > 1 else "looks/*.parquet"

fleet = duckdb.connect()
fleet.read_parquet(FILES).create_view("seen")
# All rows of a look have its CPU time, so that each look counts once.
fleet.execute("""
    CREATE VIEW looks AS
    SELECT DISTINCT host, target, time, time::TIMESTAMP AS began, cpu_ns FROM seen
""")
members = fleet.sql("""
    SELECT member, mode(verdict) AS verdict, arg_max(function, most_ns) AS function,
           count(DISTINCT host) AS hosts, sum(most_ns) / (SELECT sum(cpu_ns) FROM looks) AS most_share
    FROM seen WHERE line IS NOT NULL
    GROUP BY member ORDER BY most_share DESC, member LIMIT 10
""")
print("Which member loses most over the fleet?")
print(members)

worst = next(iter(members.fetchall()), None)
if worst is None:
    sys.exit("no look has found a contended line")
fleet.execute("SET VARIABLE worst = ?", [worst[0]])
# Its cost in each look, 0 where it was not found.
fleet.execute("""
    CREATE VIEW costs AS
    SELECT host, began, any_value(cpu_ns) AS cpu_ns, coalesce(sum(most_ns), 0) AS most_ns
    FROM looks LEFT JOIN (
        SELECT host, target, time, most_ns FROM seen
        WHERE line IS NOT NULL AND member IS NOT DISTINCT FROM getvariable('worst')
    ) USING (host, target, time)
    GROUP BY host, target, began
""")
print(f"Which hosts have {worst[0]}?")
print(fleet.sql("""
    SELECT host, count(*) AS looks, count(*) FILTER (most_ns > 0) AS found_in,
           sum(most_ns) / sum(cpu_ns) AS most_share
    FROM costs GROUP BY host ORDER BY most_share DESC, host LIMIT 10
"""))
print("Since which hour?")
hours = fleet.sql("""
    SELECT date_trunc('hour', began) AS hour, count(*) AS looks, sum(most_ns) / sum(cpu_ns) AS most_share
    FROM costs GROUP BY hour ORDER BY hour
""")
print(hours)
shares = hours.fetchall()
# The first hour with half of what it costs in the worst one.
most = max(share for _, _, share in shares)
since = next(hour for hour, _, share in shares if share >= most / 2)
print(f"{worst[0]} costs at most {worst[4]:.1%} of the CPU time, on {worst[3]} hosts, since {since}")
