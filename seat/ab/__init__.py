"""Compare two speech servers on the same clips, in one interleaved run, and say plainly where they do not differ.

`contenders` are asked for `clips` in the order of `schedule`; `statistics` and `words` judge what came back, `probes`
send what is hard, and `report` and `plots` show it. What only this needs is installed with ``seat[ab]``.
"""
