"""People with many rows: found at one row each, then counted in layers in which each person weighs a bounded amount.

* `weights`: what people weigh at leaves and nodes, in whole units.
* `design.choose_design`: how a budget is spent, by predicted noise; what a design costs.
* `release`: from records of people to a release.
* `estimator.make_people_estimator`: the measurement.
"""
