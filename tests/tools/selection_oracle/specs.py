"""Method SPECs: defaults, budgets, and the ones that the goldens hold."""
import math

import blocks
import trained


def two_fifths(tr):
    """floor(0.4 * num_layers)"""
    return 2 * tr.num_layers // 5


# A default that depends on the model is a function of the trace.
DEFAULTS = {
    "dense": {},
    "oracle": {"reduce": "sum"},
    "random": {"seed": 0},
    "sliding_window": {},
    "quoka": {"num_queries": 16, "metric": "cosine", "query_reduce": "max",
              "group_query_mode": "rank_paired", "decode": "select", "query_ratio": 0},
    "uniform_queries": {"num_queries": 16},
    "sample_attention": {"num_queries": 16, "mode": "budget", "coverage": 0.95},
    "sparq": {"num_channels": lambda tr: max(1, tr.d // 4), "agg": "logit_mean"},
    "loki": {"num_channels": lambda tr: max(1, tr.d // 4), "agg": "logit_mean", "basis": "auto"},
    "tidal_decode": {"first_layer": 2, "correction_layer": two_fifths, "sel_layers": "dense"},
    "less_is_more": {"first_layer": 2, "correction_layer": two_fifths, "sel_layers": "dense",
                     "sink_tokens": 4, "recent_ratio": 0.25},
    "snapkv": {"window": 32, "kernel": 7, "pool": "max", "state": "evict"},
    "keydiff": {"state": "evict"},
    "h2o": {"recent_ratio": 0.5, "normalise": "none", "start": "prefill"},
    "tova": {"force_last": 1, "per_kv_head": 0},
    "streaming_llm": {"sink_tokens": 4, "positions": "original"},
    "infinipot": {"novelty_ratio": 0.5},
    "quest": {"page_size": 16, "prefill": "chunk", "rule": "eval", "gqa_reduce": "per_query_head",
              "skip_layers": 2, "force_last_page": 1},
    **blocks.DEFAULTS,
}


def parse(spec, tr):
    method, _, rest = spec.partition(":")
    values = {"budget_tokens": 1024, "budget_ratio": 0.0, "budget_scope": "past"}
    values.update({k: v(tr) if callable(v) else v for k, v in DEFAULTS[method].items()})
    for item in filter(None, rest.split(",")):
        name, value = item.split("=")
        values[name] = type(values[name])(value)
        if name == "budget_ratio" and values[name] > 0:
            values["budget_tokens"] = 0
    return method, values


def budget(values, n):
    if values["budget_tokens"] > 0:
        return values["budget_tokens"]
    return max(1, math.floor(values["budget_ratio"] * n + 1e-9))


SPECS = [
    "dense", "oracle:budget_tokens=24", "oracle:budget_tokens=24,reduce=max",
    "oracle:budget_ratio=0.25,budget_scope=all", "sliding_window:budget_tokens=20",
    "sliding_window:budget_tokens=20,budget_scope=all", "quoka:budget_tokens=24,num_queries=4",
    "quoka:budget_tokens=24", "quoka:budget_tokens=24,num_queries=64",
    "quoka:budget_tokens=24,num_queries=4,metric=dot",
    "quoka:budget_tokens=24,num_queries=4,query_reduce=mean",
    "quoka:budget_tokens=24,num_queries=4,group_query_mode=shared_tokens",
    "quoka:budget_tokens=24,num_queries=4,group_query_mode=post_agg",
    "quoka:budget_tokens=24,num_queries=4,group_query_mode=post_agg,metric=dot,query_reduce=mean",
    "quoka:budget_tokens=24,num_queries=4,budget_scope=all", "quoka:budget_ratio=0.3,decode=dense",
    "uniform_queries:budget_tokens=24,num_queries=5", "uniform_queries:budget_tokens=24,num_queries=40",
    "uniform_queries:budget_ratio=0.25,num_queries=5,budget_scope=all",
    "sample_attention:budget_tokens=24,num_queries=5", "sample_attention:budget_ratio=0.25",
    "sample_attention:budget_tokens=24,num_queries=4,budget_scope=all",
    "sample_attention:budget_tokens=40,mode=coverage,coverage=0.6",
    "sample_attention:budget_tokens=24,mode=coverage",
    "sparq:budget_tokens=24", "sparq:budget_tokens=24,num_channels=3,agg=prob_mean",
    "sparq:budget_ratio=0.25,num_channels=5,budget_scope=all",
    "loki:budget_tokens=24,basis=self", "loki:budget_tokens=24,num_channels=3,agg=prob_mean,basis=self",
    "loki:budget_ratio=0.25,num_channels=8,budget_scope=all,basis=self",
    "tidal_decode:budget_tokens=24,first_layer=3",
    "tidal_decode:budget_tokens=24,first_layer=1,correction_layer=0",
    "tidal_decode:budget_tokens=24,first_layer=1,correction_layer=3,sel_layers=set",
    "less_is_more:budget_tokens=24,first_layer=1,correction_layer=0",
    "less_is_more:budget_tokens=24,first_layer=1,correction_layer=3,sel_layers=set",
    "less_is_more:budget_ratio=0.3,first_layer=1,correction_layer=0,sink_tokens=2,recent_ratio=0.6",
    "snapkv:budget_tokens=24,window=8", "snapkv:budget_tokens=24,window=8,pool=avg,kernel=5",
    "snapkv:budget_tokens=24,window=8,state=select", "snapkv:budget_tokens=24,window=8,state=select,pool=avg",
    "snapkv:budget_tokens=24", "snapkv:budget_ratio=0.5,window=4", "snapkv:budget_tokens=40,window=64",
    "keydiff:budget_tokens=24", "keydiff:budget_tokens=24,state=select", "keydiff:budget_ratio=0.3",
    "streaming_llm:budget_tokens=24", "streaming_llm:budget_tokens=3", "streaming_llm:budget_ratio=0.25",
    "h2o:budget_tokens=24", "h2o:budget_tokens=25,recent_ratio=0.3,normalise=by_age",
    "h2o:budget_ratio=0.3,recent_ratio=0", "h2o:budget_tokens=24,recent_ratio=1",
    "h2o:budget_tokens=24,start=decode", "h2o:budget_ratio=0.3,recent_ratio=0.25,normalise=by_age,start=decode",
    "tova:budget_tokens=24", "tova:budget_tokens=24,force_last=0,per_kv_head=1", "tova:budget_ratio=0.3",
    "infinipot:budget_tokens=24", "infinipot:budget_tokens=24,novelty_ratio=0",
    "infinipot:budget_tokens=24,novelty_ratio=1", "infinipot:budget_ratio=0.3,novelty_ratio=0.3",
    "quest:budget_tokens=40", "quest:budget_tokens=24,page_size=4,skip_layers=0",
    "quest:budget_ratio=0.3,page_size=5,skip_layers=0,force_last_page=0",
    "quest:budget_tokens=24,page_size=4,skip_layers=0,rule=kernel,gqa_reduce=union",
    "quest:budget_tokens=24,page_size=4,skip_layers=0,gqa_reduce=max_score",
    "quest:budget_tokens=24,page_size=6,skip_layers=0,gqa_reduce=mean_score",
    "quest:budget_tokens=8,page_size=16,skip_layers=0,rule=kernel",
    "quest:budget_tokens=24,page_size=4,skip_layers=0,prefill=per_query",
    "quest:budget_tokens=24,page_size=6,skip_layers=0,prefill=per_query,force_last_page=0",
    "quest:budget_tokens=24,page_size=4,skip_layers=0,prefill=per_query,gqa_reduce=mean_score",
    "quest:budget_tokens=24,page_size=4,skip_layers=0,prefill=dense",
    "streaming_llm:budget_tokens=24,sink_tokens=0", "quoka:budget_tokens=1000", "keydiff:budget_tokens=1000",
    *blocks.SPECS, *trained.SPECS,
]
