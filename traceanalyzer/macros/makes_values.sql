-- Whether an operator makes a tensor's values from none: random numbers, constants, ranges. Devices do this themselves.
CREATE OR REPLACE MACRO makes_values(operator) AS
    coalesce(regexp_matches(
        operator,
        '^aten::(rand|randn|randint|randperm|normal|uniform|random|bernoulli|exponential|log_normal|zeros|ones|full|fill|zero|arange|range|linspace|logspace|eye)(_like|_)?(\.|$)'
    ), FALSE);
