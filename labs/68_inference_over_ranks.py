# %% [markdown]
# <!-- Generated from solutions/68_inference_over_ranks.py by `make labs`. Learners work on a copy in work/. -->
# # 68 Inference over ranks
#
# A network is trained once and then used for months, so most of the devices of a large service do
# *[inference](../labs/GLOSSARY.md#inference)*. A language model produces a text token by token. Every token waits for the one before
# it, and each step reads all weights from memory to do very little arithmetic.
#
# When the model generates text for one user, a GPU may therefore reach less than a hundredth of its
# peak performance. More GPUs do not shorten a step unless they divide the weights.
#
# In this lab we generate text with the GPT (generative pre-trained transformer) from [lab 64](64_tensor_parallel.ipynb), on one
# device and across [ranks](../labs/GLOSSARY.md#rank). We write the *KV cache*, which avoids computing everything again, and
# count what a step costs in both phases of a request: *prefill* reads the prompt, and *decode*
# produces the text. Then we partition the model over ranks, and decide how several devices share
# their requests. Four optional parts (about 37 minutes more) follow the recap.
#
# **After this lab you can** (1) write attention with a KV cache and show that it chooses the same
# tokens, (2) compute the arithmetic intensity of prefill and decode, (3) place the two [allreduces](../labs/GLOSSARY.md#allreduce)
# of a tensor-parallel layer, (4) decide between replicas of a model and tensor parallelism for
# given devices, and (5, optional) write continuous batching and say what a separate pool of devices
# for prefill changes.
#
# ![A request on a time axis: a prefill computes all positions of the prompt at once and gives the first token, then each step of decode gives one token. The KV cache grows by one position in each step](../notebooks/figures/68_request.svg)
#
# *One request: the prefill of the whole prompt, then one step of decode per token. The KV cache
# grows by a position per step.*
#
# Needs: mpi, torch · Ranks: 2 · Minutes: 60 · Level: advanced · Before: 10, 12, 22, 64

# %%
import numpy as np
import pandas
import torch
import virtual
from labkit import check, data, hint, lab, launch, plots, predict, record, timing, world
from labkit.scaling import fit_alpha_beta
from support import lab68
from torch.nn.functional import scaled_dot_product_attention

lab.start("68_inference_over_ranks")
device = world.device()  # "cuda:0" where there is a GPU, else "cpu"
torch.set_num_threads(1)  # on a CPU, a device of this lab is one core
ranks = min(launch.ranks_here(2), 2)  # ranks that share the work

# %% tags=["parameters"]
read = 262_144  # characters of Python's source that are read
steps = 800  # steps in which the small GPT is trained
count = 40  # tokens that it generates
wide = 512  # hidden size of the GPT that is timed
layers = 6  # its layers
prompt = 128  # tokens of a prompt in the measurements
batches = (1, 2, 4, 8, 16, 32)  # sequences in a step of decode
both = (2, 8, 32)  # requests for replicas and tensor parallelism
asked = 24  # requests to the server
slots = 8  # requests in a batch of the server
loads = (0.3, 0.6, 0.9, 1.5)  # arrival rates of requests; 1 keeps all slots of the server busy
seconds = 1.0  # spent on a measurement, about
most = 3  # ranks on which a layer is tried, where no launcher says how many there are
patience = 20  # seconds after which a check calls a program stuck


# %% [markdown]
# ## 1. Prefill, decode and the KV cache
# A GPT that has read the first *n* tokens of a text returns scores for token *n* + 1. We choose the
# token with the highest score, append it, and continue with *n* + 1 tokens.
#
# In the attention of each layer, a position compares its *query* with the *keys* of itself and of
# earlier positions, and takes a weighted mean of their *values* ([lab 64](64_tensor_parallel.ipynb)). A key or value never
# changes when later tokens are appended. A server therefore keeps keys and values in the **KV
# cache** instead of computing them again. A request then has two phases:
#
# | phase | processes | produces | the user notices |
# |---|---|---|---|
# | **prefill** | all positions of the prompt at once | the cache, and the first token | **time to first token** |
# | **decode**, one step per token | the newest token only | one more position in the cache, and the next token | **inter-token latency** |
#
# Only attention combines positions, so the rest of a layer does not need the cache. Attention
# differs between the phases:
#
# - *Prefill.* The cache is empty, and each position uses itself and earlier positions, which
#   PyTorch calls `is_causal=True`.
# - *Decode step.* The single new position uses *all* positions in the cache, so no mask is needed.
#
# For example, this call gives the attention of three queries to four keys without a mask:
#
#     scaled_dot_product_attention(three_queries, four_keys, four_values)
#
# ### Exercise 68.1 · Attention with a cache
# Write `attend`. It appends the new keys and values to `cache["keys"]` and `cache["values"]`, and
# returns the attention of the new queries to all keys and values in the cache. Either the cache is
# empty (a prefill), or there is one new position (a decode step).
#
# All tensors have the shape (sequences, heads, positions, features), and
# `torch.cat([a, b], dim=2)` joins two of them along the positions. 3 lines. *(intermediate)*
#
# <details><summary>Hint 1: append</summary>
#
# `cache["keys"] = torch.cat([cache["keys"], keys], dim=2)`, and the same for the values. Use what
# is now in the cache.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `scaled_dot_product_attention(queries, cache["keys"], cache["values"], is_causal=…)`, where
# `is_causal` is true only if there is more than one new position, `queries.shape[2] > 1`. With one
# query and many keys, PyTorch's causal mask would let this query see the first key only.
# </details>

# %%
def attend(queries, keys, values, cache):
    """Attention of the new positions to all so far; their keys and values join the cache.

    cache: {"keys": tensor, "values": tensor} of earlier positions, at first with
    tensors of 0 positions.
    """
    raise NotImplementedError("exercise 68.1: Attention with a cache")


# %%
# Asked: The cache grows by every new position, attention looks at all of it,
# and a GPT chooses the same tokens as one that computes everything again.
check("68.1", attend)

# %% [markdown]
# ### Predict
# A prompt has 40 tokens, and we generate 40 more in two ways:
#
# - *Without a cache*, 40 positions are computed for the first token, 41 for the second, and so on.
# - *With a cache*, 40 are computed for the first token, and one for each of the other 39.
#
# How many times as many positions are computed without a cache? And how many times as long does
# this take, for a GPT with 75 MB of weights?

# %%
predict("68.1", positions=..., time=...)

# %% [markdown]
# ### Measure
# The next cell compares the tokens. It trains a small GPT on Python's own source, where a token is
# a character, and lets it continue a text in both ways. (Its weights are in float64, so that
# rounding does not decide between two tokens.)
#
# The cell after it compares the times, for a larger GPT with 75 MB of random weights, more than
# fits into most processor caches. This takes about 25 s on two idle cores, and up to three times as
# long on busy ones.

# %%
corpus = data.corpus(read)
places = max(128, 40 + count)  # positions for which it has numbers
small = lab68.trained(corpus, lab68.Sizes(len(corpus.vocabulary), 64, 4, 2, places), steps)
text = "def area(self, width, height):\n    retur"  # 40 characters
begin = torch.tensor([[corpus.vocabulary.index(character) for character in text]])
cached = lab68.generate(small, begin, count, attend)
print("the same tokens:", torch.equal(cached, lab68.recompute(small, begin, count)))
print(text + "".join(corpus.vocabulary[token] for token in cached[0]))

# %%
large = lab68.wide(wide, layers, max(40 + count, prompt + 1)).to(device)
tokens = begin.to(device)
ratio = timing.ratio(
    lambda: lab68.recompute(large, tokens, count),
    lambda: lab68.generate(large, tokens, count, attend),
    device=device,
    warmup=1,
    seconds=6 * seconds,
)
record.add("cache", net="large", ratio=ratio)
print(f"everything again / with the cache: {ratio}")
positions = sum(range(40, 40 + count)) / (40 + count - 1)
predict.right("68.1", positions=positions, time=ratio.median)


# %% [markdown]
# **Explain.** Both ways choose the same tokens, with which later sections compare theirs. (The
# model is tiny, so its text resembles Python only vaguely.)
#
# With the cache, 30 times fewer positions are computed, yet the time is only a few times shorter,
# because a step with one position still reads all 75 MB of weights. So arithmetic does not limit a
# step of decode, and the next section counts what does.
#
# ## 2. Arithmetic intensity of both phases
# The **arithmetic intensity** of a step ([lab 12](12_find_the_bottleneck.ipynb)) is its flops (floating-point operations) divided
# by the bytes that are read for them. (We count only the weights and the cache.) Above the *ridge*
# of a device, its peak flop/s divided by its memory [bandwidth](../labs/GLOSSARY.md#bandwidth), arithmetic limits the step, and
# below the ridge memory does.
#
# A position is represented by `hidden` numbers. A layer of this GPT has 12 · hidden² weights:
# 4 hidden² in the attention (queries, keys, values and output) and 8 hidden² in the MLP (multilayer
# perceptron: two linear layers with an [activation](../labs/GLOSSARY.md#activation) function between them).
#
# Consider a prefill or a decode step with `sequences` sequences, which are the texts of as many
# requests. Each sequence has `new` new tokens, and each new token attends to `context` positions.
# In each layer we count
#
# - *flops with weights:* a multiply-add, which counts as two flops, for each token and weight.
# - *flops of the attention:* for each token and each position that it attends to, 2 · hidden for
#   the product of query and key, and 2 · hidden for the weighted sum of values. (All `context`
#   positions count, also in a prefill, whose mask hides half of them.)
# - *bytes of the weights:* read once, for all tokens of all sequences together.
# - *bytes of the cache:* `hidden` numbers for the key and as many for the value of each of the
#   `context` positions, which every sequence reads from its own cache.
#
# As an example, the last matrix of the model has hidden · *v* weights for *v* characters. For one
# token of each of 8 sequences it does 2 · 8 · hidden · *v* flops and reads hidden · *v* numbers of
# `itemsize` bytes, so its intensity is 16 / `itemsize` flops per byte.
#
# ### Exercise 68.2 · Flops and bytes of a step
# Write `step_cost`, which returns the flops and the bytes of a step through all `layers`, without
# the last matrix. A number has `itemsize` bytes. 4 to 6 lines. *(intermediate)*
#
# <details><summary>Hint 1: the parts</summary>
#
# There are `sequences * new` tokens, `12 * hidden**2 * layers` weights, and
# `2 * context * hidden * layers` numbers in the cache of one sequence.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# The number of flops is `2 * weights * tokens + 4 * context * hidden * layers * tokens`. The number
# of bytes is `itemsize * (weights + cache)`, where `cache` counts the numbers of all sequences.
# </details>

# %%
def step_cost(sequences, new, context, hidden, layers, itemsize):
    """(flops, bytes) of a step through all layers; itemsize: bytes of a number."""
    raise NotImplementedError("exercise 68.2: Flops and bytes of a step")


# %%
# Asked: Flops and bytes of prefill, decode and steps between them, of weights,
# attention and cache, for numbers of several sizes.
check("68.2", step_cost)

# %% [markdown]
# ### Predict
# A model with 32 layers and hidden size 4,096 uses 2-byte numbers. What is the intensity, in flops
# per byte, of these steps?
#
# - `prefill`: a prompt of 512 tokens.
# - `decode`: a decode step for one sequence, with 512 positions in the cache.
# - `decode_64`: a decode step for 64 such sequences.
#
# (Begin with the weights alone. Is the cache small compared with them?)

# %%
predict("68.2", prefill=..., decode=..., decode_64=...)

# %%
shapes = {"prefill": (1, 512, 512), "decode": (1, 1, 512), "decode_64": (64, 1, 512)}
costs = {name: step_cost(*shape, 4096, 32, 2) for name, shape in shapes.items()}
predict.right("68.2", **{name: flops / moved for name, (flops, moved) in costs.items()})

# %% [markdown]
# **Explain.** An H100 does 989 Tflop/s in BF16, a floating-point format of 16 bits, and reads 3.35
# TB/s (NVIDIA's data sheet), so its ridge is at 295 flops per byte.
#
# - *The prefill* uses each weight for 512 tokens. It is above the ridge, so arithmetic limits it.
# - *Decode of one sequence* does one flop per byte, and reaches 1/295 of the peak at best.
# - *Decode of 64 sequences* uses each weight 64 times, but each sequence reads its own cache, and
#   the caches have more bytes than the weights. The intensity is only 28.
#
# By the same formula, the intensity of decode stays below 49 for any number of sequences. With such
# contexts, decode is therefore always memory-bound, and many newer models share keys and values
# between heads for this reason.
#
# ### Measure
# The next cell measures the two roofs of this device, peak flop/s and memory bandwidth, and times a
# prefill and steps of decode for 1 to 32 sequences with the large GPT. This takes about 15 s. In
# the table, *least ms* is the time that the roofs allow, and *ms* the measured one. In the plot, a
# number at a point counts its sequences.

# %%
roofs = lab68.roofs(device)
print(f"peak {roofs.peak / 1e9:.0f} Gflop/s, memory {roofs.bandwidth / 1e9:.0f} GB/s")
timed = lab68.time_steps(large, attend, batches, prompt, device, seconds)
table = {}
for name, (shape, took) in timed.items():
    flops, moved = step_cost(*shape, wide, layers, 4)
    table[name] = {
        "flops/byte": flops / moved,
        "least ms": 1e3 * max(flops / roofs.peak, moved / roofs.bandwidth),
        "ms": 1e3 * took.median,
        "middle half, ms": f"{1e3 * took.q1:.3g} to {1e3 * took.q3:.3g}",
        "tokens/s": took.rate(shape[0] * shape[1]),
        "Gflop/s": took.rate(flops) / 1e9,
    }
    record.add("step", what=name, seconds=took, least=table[name]["least ms"] / 1e3)
table = pandas.DataFrame(table).T
print(table.to_string(float_format="{:.3g}".format))
lab68.draw_roofline(
    roofs, table, batches, title="A prefill, and decode of several sequences, below the roof"
)


# %% [markdown]
# **Explain.** The plot shows three cases:
#
# - *Prefill* uses each weight for 128 tokens and is right of the ridge, so its time is near that of
#   the arithmetic.
# - *Decode of one sequence* uses each weight once, at half a flop per byte, and is limited by
#   memory.
# - *More sequences* share the same read of the weights, so the points move to the right and upward.
#   Each sequence adds tokens per second, but the step becomes longer for all of them.
#
# In our reference run on two cores, decode of one sequence took 2.5 times the least time, and
# decode of 2 to 32 sequences took 3 to 4 times the least time. PyTorch probably has a faster
# routine for one sequence. There are two likely reasons for the rest, for which this lab has no
# control:
#
# - A product with few rows reaches less of the memory bandwidth than the copy that gave the roof.
# - `torch.cat` copies the whole cache in each step, which our count leaves out.
#
# (On busy cores we saw factors from 1 to 6, because the load changed between the roofs and the
# steps.)
#
# ## 3. Tensor parallelism for one request
# A batch does not make a single request faster. If the [latency](../labs/GLOSSARY.md#latency) of a request counts, or if the
# weights do not fit into one device, the layers have to be partitioned.
#
# We use the cuts of [lab 64](64_tensor_parallel.ipynb). A rank has some heads of the attention, *with their part of the KV
# cache*, some columns of the MLP's first matrix, and the same rows of its second one. Each rank
# then reads only its part of the weights and of the cache. Inference has no [backward pass](../labs/GLOSSARY.md#backward-pass), so only
# the function g of [lab 64](64_tensor_parallel.ipynb) remains, the allreduce that adds up the terms of all ranks:

# %%
def added(comm, terms):
    """The sum of this tensor over all ranks of `comm`, on every rank."""
    total = torch.empty_like(terms, memory_format=torch.contiguous_format)
    comm.Allreduce(terms.contiguous(), total)
    return total


# %% [markdown]
# On one device, a layer is
#
#     middle = entering + part.attention(part.norm1(entering)) + part.out_bias
#     leaving = middle + part.mlp(part.norm2(middle)) + part.down_bias
#
# `norm1` and `norm2` are layer normalizations, which scale the numbers of each position to mean 0
# and variance 1. Each line also adds its input to the result (a *residual connection*).
#
# On several ranks, `part.attention` and `part.mlp` return this rank's *terms* of the sum. All ranks
# have the complete `entering`, norms and biases. The sum must contain `entering` and the biases
# only once. For example, with terms 3 and 4 on two ranks and a bias of 1, the result is 8. A sum of
# 3 + 1 and 4 + 1 would be 9.
#
# ### Exercise 68.3 · A layer over ranks
# Write the layer so that every rank returns what one device would return. It takes two allreduces,
# and no other [collective](../labs/GLOSSARY.md#collective). You may overwrite `entering`. 2 to 4 lines. *(intermediate)*
#
# <details><summary>Hint 1: where?</summary>
#
# `norm2` is not linear, so it needs the complete `middle`. `entering` and the biases must be
# counted once, so they are added outside the sum.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `middle = entering + added(comm, part.attention(…)) + part.out_bias`, and the same for the MLP.
# </details>

# %%
def parallel_layer(comm, entering, part):
    """What leaves a layer, on all ranks alike; `part` is this rank's part of it."""
    raise NotImplementedError("exercise 68.3: A layer over ranks")


# %%
# Asked: What leaves a layer is as on one device, for several positions and for
# one, in groups of every size, with two allreduces.
check("68.3", parallel_layer)

# %% [markdown]
# ### Predict
# The large GPT has 6 layers and hidden size 512, with numbers of 4 bytes. How many allreduces does
# a decode step for one request need, and how many bytes does each of them sum? For this size, does
# latency or bandwidth decide ([lab 22](22_latency_and_bandwidth.ipynb))?

# %%
predict("68.3", allreduces=..., nbytes=...)

# %%
over = launch.run(
    lab68.generate_over_ranks, small, begin, count, attend, parallel_layer, ranks=ranks, threads=1
)
same = all(result.tokens == cached.tolist() for result in over)
print(f"{ranks} ranks on {over[0].device} choose the tokens of one device: {same}")
each = over[0].nbytes / over[0].calls if over[0].calls else 0
print(f"in a step of the small GPT: {over[0].calls:g} allreduces of {each:g} bytes each")
record.add("tokens", ranks=ranks, same=same, trained_on=over[0].device, allreduces=over[0].calls)
predict.right("68.3", allreduces=2 * layers, nbytes=4 * wide)


# %% [markdown]
# **Explain.** The small GPT has 2 layers and makes 4 allreduces, each of 64 numbers of 8 bytes. The
# large one makes 12, each of 512 numbers of 4 bytes, which take little more than the latency α
# (section 4 measures it). In the layer as it is written here, no allreduce of a request overlaps
# with computation, because each part needs the sum before it.
#
# Could one allreduce at the end of the layer add up both terms?
# <details><summary>Answer</summary>
#
# No. The MLP needs the norm of the complete <code>middle</code>, and the norm of a sum is not the
# sum of norms. Models that compute the attention and the MLP from the same input need only one.
# </details>
#
# ## 4. Replicas or tensor parallelism?
# The same *p* devices can work in two ways on the same requests:
#
# - **Replicas.** Each device has the whole model and serves 1/*p* of the requests. Nothing is sent
#   between devices, and a step takes as long as one device needs for this share.
# - **Tensor parallelism.** All devices work on all requests. Each has 1/*p* of the weights, of the
#   caches and of the arithmetic, so we assume that the computation takes 1/*p* of the time that one
#   device needs for all requests. Each layer adds two allreduces, of `hidden` numbers for each
#   request.
#
# Both produce one token per request in a step, so the shorter step means both the lower inter-token
# latency and the higher [throughput](../labs/GLOSSARY.md#throughput).
#
# ### Exercise 68.4 · Seconds of both
# Write `seconds_of_both`, which returns the seconds of a step with replicas, and with tensor
# parallelism. `step(n)` returns the seconds of a step of decode for *n* requests on one device, and
# `allreduce(nbytes)` those of an allreduce over the devices. (The number of requests is always a
# multiple of the number of devices.) 3 or 4 lines. *(intermediate)*
#
# For example, 12 requests on 4 replicas are 3 per device. If a step takes one device 8 ms for 3
# requests and 20 ms for 12, and an allreduce takes 0.1 ms, return 0.008 and 0.0062 for 6 layers.
#
# <details><summary>Hint 1: replicas</summary>
#
# `step(requests / devices)`. This is not `step(requests) / devices`, because each replica reads all
# weights.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `step(requests) / devices + 2 * layers * allreduce(…)`, where the array has
# `requests * hidden * itemsize` bytes.
# </details>

# %%
def seconds_of_both(step, allreduce, requests, devices, layers, hidden, itemsize):
    """Seconds of a step of decode: (of replicas, of tensor parallelism)."""
    raise NotImplementedError("exercise 68.4: Seconds of both")


# %%
# Asked: The seconds of both for several numbers of requests and devices, with a
# step that grows with its requests and an allreduce that grows with its bytes.
check("68.4", seconds_of_both)

# %% [markdown]
# ### Predict
# For 2 requests on 2 devices, how many times as long is a step with tensor parallelism as one with
# replicas? And for 32 requests? Assume that an allreduce takes 10 µs, and use the decode times in
# the table of section 2:
#
# - Replicas take the time in the row of half the requests.
# - Tensor parallelism takes half the time in the row of all requests, plus 12 allreduces.

# %%
predict("68.4", few=..., many=...)

# %% [markdown]
# ### Measure: two ranks
# Two ranks, each with one core, run both ways in turns. We also measure allreduces on the same
# ranks and fit the latency α and the seconds per byte β to them, so that your function can predict
# both times from the steps of section 2. *In allreduces* is the share of its steps that rank 0
# spends in allreduces, in which it also waits for the other rank. This takes about 20 s.

# %%
work = (wide, layers, prompt, both, attend, parallel_layer, 2 * seconds)
found, times = launch.run(lab68.time_both, *work, ranks=ranks, threads=1)[0]
line = fit_alpha_beta(times)
print(f"allreduce on {ranks} ranks: α {1e6 * line.alpha:.3g} µs, β {1e9 * line.beta:.3g} ns/byte")
step = lab68.between_measured(timed)  # seconds of a step of decode on one device, by requests
rows = {}
for requests, measured in found.items():
    predicted = seconds_of_both(step, line.time, requests, ranks, layers, wide, 4)
    for way, expected, took in zip(("replicas", "tensor"), predicted, measured[:2], strict=True):
        rows[f"{requests} requests, {way}"] = {
            "predicted ms": 1e3 * expected,
            "ms": 1e3 * took.median,
            "middle half, ms": f"{1e3 * took.q1:.3g} to {1e3 * took.q3:.3g}",
            "in allreduces": f"{measured.waiting:.0%}" if way == "tensor" else "",
        }
        about = {"way": way, "requests": requests, "predicted": float(expected)}
        record.add("ways", ranks=ranks, seconds=took, **about)
print(pandas.DataFrame(rows).T.to_string(float_format="{:.3g}".format))
few, *_, many = (each.tensor.median / each.replicas.median for each in found.values())
predict.right("68.4", few=few, many=many)


# %% [markdown]
# **Explain.** In a step, each replica reads all 75 MB of weights, and each tensor rank half of
# them. On our two cores, a step took
#
# | requests | replicas | tensor parallelism |
# |---|---|---|
# | 2 | 7.8 ms | 7.5 ms |
# | 8 | 12.4 ms | 9.7 ms |
# | 32 | 24.3 ms | 22.6 ms |
#
# - *2 requests.* Each replica has a single sequence, and probably uses the faster routine, which
#   cancels the advantage of reading less. Which way was faster changed from run to run.
# - *8 requests.* Each replica has four sequences, so tensor parallelism is ahead.
# - *32 requests.* Arithmetic and the copies of the caches, of which each device does half in both
#   ways, are now a larger part of the step, so reading half of the weights saves a smaller share.
#
# The prediction leaves out that both cores share one memory, and that at every allreduce the ranks
# wait for the later one, a [straggler](../labs/GLOSSARY.md#straggler) ([lab 53](53_straggler_hunt.ipynb)).
#
# Replicas send nothing, so their times should be near the prediction. If one of them is more than
# 1.5 times as long, other programs were using the cores, so run the cell again before you compare
# both ways.
#
# ### What you take away
# - Prefill is like training: many tokens per weight. Decode reads all weights and the cache for one
#   token per sequence, and is limited by memory.
# - With a KV cache, the tokens stay the same. The cache fills the memory and keeps decode
#   memory-bound for long contexts.
# - More sequences in a batch give more throughput at a longer step.
# - Of these two ways, only tensor parallelism divides the work of a single request. It needs two
#   allreduces per layer, which do not overlap with computation in this form.
# - Replicas send nothing, but each of them holds all weights, so the model has to fit on one
#   device.
#
# ## Going further (optional): eight GPUs (5 minutes)
# Your functions also answer the question of section 4 for other hardware. Take a model with 40
# layers and hidden size 5,120 (25 GB in 16 bits), with 1,000 positions in each cache. We compare
#
# - 8 replicas,
# - 8 tensor ranks in one node, connected by NVLink,
# - 8 tensor ranks in eight nodes, connected by InfiniBand NDR (400 Gbit/s per port).
#
# The next cell computes the *least* time of a step by the [roofline](../labs/GLOSSARY.md#roofline) of an H100, and runs the
# allreduces on the [virtual cluster](../labs/GLOSSARY.md#virtual-cluster), our simulator. For each number of requests, the lowest point is
# the fastest way.

# %%
def h100(requests, new=1, context=1000):
    """Seconds of a step on one H100, at least."""
    flops, moved = step_cost(requests, new, context, 5120, 40, 2)
    return max(flops / 989e12, moved / 3.35e12)


at_once = (8, 16, 32, 64, 128, 256, 512)  # requests
took = {}
for name, cluster in (("in a node", (1, 8)), ("8 nodes", (8, 1))):
    allreduce = lab68.allreduce_on(virtual.Cluster(*cluster, "h100_ndr"))
    pairs = [seconds_of_both(h100, allreduce, many, 8, 40, 5120, 2) for many in at_once]
    took["8 replicas"], took[f"tensor parallel, {name}"] = np.transpose(pairs)
for name, times in took.items():
    record.add("h100", ranks=8, way=name, milliseconds=(1e3 * times).tolist())
plots.lines(
    {name: dict(zip(at_once, 1e3 * times, strict=True)) for name, times in took.items()},
    xlabel="requests in a step",
    ylabel="inter-token latency (ms)",
    logx=True,
    logy=True,
    title="8 to 512 requests on eight GPUs, computed",
    name="eight_gpus",
)


# %% [markdown]
# **Explain.** These times are computed, and no real server reaches them, so only their order
# counts. Replicas cannot be faster than the 7.5 ms in which a device reads 25 GB. A tensor rank
# reads an eighth of it, but a step has 80 allreduces, whose times are those of our simulator:
#
# | tensor ranks | an allreduce for 8 and for 512 requests | ahead of replicas |
# |---|---|---|
# | in a node | 53 and 98 µs | for up to 128 requests, and about equal at 256 |
# | between nodes | 60 and 268 µs | for up to 16 requests |
#
# A faster allreduce would move both limits.
#
# For many requests, replicas have the highest throughput, provided that the model fits on one
# device. From these results, a server should use tensor parallelism inside a node, with as few
# ranks as the latency (or the memory) requires, and replicas of this group for the rest.
#
# ## Going further (optional): continuous batching (20 minutes)
# Batches are useful, but requests do not come together, and do not have the same length. A server
# has a number of *slots*, which are the places of requests in its batch. Its **scheduler** decides
# which request gets a slot, and when:
#
# - **Static batching** takes the requests that wait, and runs this batch until all of them are
#   finished. A short request then waits for the longest one, and its slot computes tokens that are
#   not needed.
# - **Continuous batching** ([Orca, 2022](https://www.usenix.org/conference/osdi22/presentation/yu)) decides again before each step.
#
# ![Rows of spans for three slots. With static batching, slots are wasted until the longest request is finished. With continuous batching the next request takes a slot in the step after it became free](../notebooks/figures/68_batching.svg)
#
# *Six requests, A to F, in three slots; D, E and F (dark) wait for a slot. With static batching
# (top), a slot is wasted (hatched) until the whole batch is finished. With continuous batching,
# slots are wasted only when no more requests are waiting.*
#
# In this lab, a scheduler is a function that is called before each step, with these arguments:
#
# - `waiting`: a `deque` of requests, the earliest first.
# - `running`: the list of requests in the batch.
# - `slots`: the number of slots.
#
# It changes `waiting` and `running`, and returns the list of the requests that leave.
#
# In its first step in the batch, a request gets its prefill and its first token. `request.left` is
# the number of tokens that a request still needs. The server lowers it by one after each step, and
# a scheduler only reads it. This is static batching:

# %%
def static(waiting, running, slots):
    """Let a batch run until all its requests are finished, then take the next ones."""
    if any(request.left > 0 for request in running):
        return []
    retired = list(running)
    running[:] = [waiting.popleft() for _ in range(min(slots, len(waiting)))]
    return retired


# %% [markdown]
# ### Exercise 68.5 · Admit and retire (optional)
# Write continuous batching: requests with no tokens left leave at once, and the earliest waiting
# requests take all free slots of the `slots` that there are. Requests arrive at any time, so a slot
# may have been free for a while. Change `waiting` and `running` in place, and return the list of
# the requests that leave. 4 or 5 lines. *(intermediate)*
#
# <details><summary>Hint 1: who leaves?</summary>
#
# `retired = [request for request in running if request.left == 0]`, and
# `running[:] = [request for request in running if request.left > 0]`.
# </details>
# <details><summary>Hint 2: nearly the answer</summary>
#
# `while waiting and len(running) < slots:` append `waiting.popleft()` to `running`. At the end,
# return `retired`.
# </details>

# %%
def continuous(waiting, running, slots):
    """Before a step: waiting requests take all free slots. Returns the list of those that leave."""
    raise NotImplementedError("exercise 68.5: Admit and retire (optional)")


# %%
# Asked: Who runs in each step: finished requests leave at once, the earliest
# waiting ones take all free slots, and there are never more than `slots`.
check("68.5", continuous)

# %% [markdown]
# ### Predict
# The next cell prints the lengths of 24 requests. Suppose that all of them wait at the beginning,
# and that there are 8 slots. How many steps does each scheduler need?
#
# - A static batch takes as many steps as its longest request.
# - Continuous batching needs at least the sum of all lengths, divided by the number of slots.

# %%
lengths = np.random.default_rng(1).integers(2, 40, asked).tolist()
print(f"{slots} slots, lengths {lengths}, which are {sum(lengths)} tokens")

# %%
predict("68.5", static=..., continuous=...)

# %%
schedulers = {"static": static, "continuous": continuous}
predict.right(
    "68.5", **{name: lab68.steps(way, slots, lengths) for name, way in schedulers.items()}
)

# %% [markdown]
# **Explain.** With the default of 24 requests and 8 slots, continuous batching needed 76 steps and
# not the least possible 65. From step 50 on no request waits any more, and the last long requests
# leave slots empty.
#
# ### Measure
# The next cell is the control. The small GPT serves requests of different lengths in one batch, and
# each has to receive the tokens that it would receive alone. The products with weights are done for
# all requests together, and your `attend` is called for each request with its own cache.
#
# In the cell after it, the large GPT serves requests that arrive at random, with both schedulers
# and at several arrival rates. A *load* of 1 is the rate at which all slots would be busy in every
# decode step. The steps are actually computed, and the clock jumps over times without requests.
# This takes about 30 s.
#
# - The table has a row for each load and scheduler, with the median time to the first token, the
#   median time between two tokens, and its 99th percentile (one time in a hundred is longer).
# - The plot shows tokens per second and the median *time in the server*, from the arrival of a
#   request until it leaves the batch. (With static batching, this is when the whole batch is
#   finished.)

# %%
together = lab68.requests(small, lengths, 16, 100.0, "cpu")
lab68.serve(small, together, continuous, slots, attend)
alone = [
    lab68.generate(small, request.prompt, length, attend)[0].tolist()
    for request, length in zip(together, lengths, strict=True)
]
print("the same tokens as alone:", [request.tokens for request in together] == alone)

# %%
tokens_per_second = slots / float(step(slots))  # with all slots busy in every step
capacity = tokens_per_second / np.mean(lengths)  # requests per second, the arrival rate at load 1
rows = {}
curves = {name: ([], []) for name in schedulers}
for share in loads:
    for name, way in schedulers.items():
        coming = lab68.requests(large, lengths, 16, share * capacity, device)
        result = lab68.service(coming, lab68.serve(large, coming, way, slots, attend))
        curves[name][0].append(result["throughput"])
        curves[name][1].append(result["latency"])
        rows[f"load {share:g}, {name}"] = {
            "first token, ms": 1e3 * result["first"],
            "between tokens, ms": 1e3 * result["gap"],
            "99 %, ms": 1e3 * result["worst_gap"],
        }
        record.add("served", load=share, scheduler=name, **result)
print(pandas.DataFrame(rows).T.to_string(float_format="{:.3g}".format))
lab68.draw_service(curves, loads, title="A server with two schedulers; beside each point, its load")

# %% [markdown]
# **Explain.** *Latency.* With static batching, a request that arrives just after a batch has begun
# waits for the end of this batch, even at a low load. With continuous batching, if a slot is free,
# the request gets its first token after at most one step, its own prefill and the prefills of
# requests that were admitted with it.
#
# *Throughput.* At a high load continuous batching also reaches more tokens per second, because no
# slot computes for finished requests. In the plot, its curve should have the lower latency at each
# throughput. Each point is one run, so ignore differences of ten percent, and run the cell again if
# the machine was busy and the curves cross.
#
# *Time between tokens.* It is usually the time of a step of decode. But whenever a request is
# admitted, its prefill comes first, and all other requests wait, as the last column shows. With
# static batching, only the batch that begins is affected, because its first request waits for the
# prefills of all others before its second token.
#
# Two remedies are in use. One divides a prefill into chunks that share a step with decode
# ([Sarathi-Serve, 2024](https://arxiv.org/abs/2403.02310)), and the other is a separate pool of devices for prefill.
#
# ## Going further (optional): a separate pool for prefill (8 minutes)
# Prefill is limited by arithmetic and decode by memory, and they interfere with each other.
# **Disaggregated serving** ([DistServe, 2024](https://arxiv.org/abs/2401.09670), [Splitwise, 2024](https://arxiv.org/abs/2311.18677)) gives
# each phase a separate *pool* of devices. One pool does the prefills, and sends the KV cache of a
# request to a device of the other pool, which decodes. No decode step is interrupted any more, but
# the message takes time. Is it worth it?
#
# We compare one pool with two pools of the same four H100, on the virtual cluster:
#
# - *Requests.* Prompts have 2,000 tokens, answers about 100, and 24 requests arrive per second.
# - *Computation.* The times come from your `step_cost` and the roofline, for the model of the part
#   about eight GPUs, whose cell has to run first.
# - *Messages.* The caches are sent over the simulated links.
#
# The table shows the time to the first token, the time between two tokens, each by its median and
# its 99th percentile, and the time between the first and the second token. *2 + 2* means two
# devices for prefill and two for decode.

# %%
cache = 2 * 2000 * 5120 * 40 * 2  # bytes: keys and values of each position, in each layer
work = lab68.Work(h100(1, 2000, 2000), lambda running: h100(running, 1, 2000), cache)
demand = lab68.demand(400, 24, 100)
print(f"a prefill {1e3 * work.prefill:.0f} ms, a step for 16 requests {1e3 * work.step(16):.0f} ms")
print(f"a cache {cache / 1e9:.2f} GB, so all requests send {24 * cache / 1e9:.0f} GB per second")
node, nodes = virtual.Cluster(1, 4, "h100_ndr"), virtual.Cluster(4, 1, "h100_ndr")
runs = {
    "4 for both": node.run(lab68.one_pool, demand, work),
    "2 + 2, NVLink": node.run(lab68.two_pools, demand, work, 2),
    "2 + 2, InfiniBand": nodes.run(lab68.two_pools, demand, work, 2),
    "1 + 3, NVLink": node.run(lab68.two_pools, demand, work, 1),
}
table = {name: lab68.seen(run, demand) for name, run in runs.items()}
for name, noticed in table.items():
    record.add("pools", way=name, **noticed)
print("milliseconds, computed:")
print(pandas.DataFrame(table).T.map("{:.3g}".format).to_string())


# %% [markdown]
# **Explain.** The two pools change four things:
#
# - *The longest gaps between tokens.* In the row *4 for both*, one in a hundred gaps is longer than
#   68 ms, more than a prefill, so the user sees the text stop. In the rows *2 + 2*, the 99th
#   percentile drops to 20 ms on NVLink, a third more than an ordinary step, and to 46 ms on
#   InfiniBand.
# - *An ordinary step.* It takes 15 ms instead of 12, because two devices decode instead of four.
# - *The first token.* The 99th percentile of its time rises from 68 to 132 ms, because two devices
#   have to do all prefills, and requests wait for each other.
# - *The second token.* Its time contains the message of 1.64 GB. NVLink moves it in less than a
#   step, and InfiniBand in about two. As an answer has about 100 tokens, one gap in a hundred
#   contains the message, which is why it appears in the 99th percentile.
#
# Why is the last row so slow to give the first token?
# <details><summary>Answer</summary>
#
# It has one device for prefill, which needs 54 ms for each of 24 requests per second, more than a
# second of work per second. Its queue keeps growing while requests arrive. A pool therefore has to
# be sized for the ratio of prompts to answers, and if this ratio changes, devices have to move
# between the pools.
# </details>
#
# So a separate pool removes the pauses between tokens, at the cost of transferring the cache.
#
# The calculation uses the roofline as the time of a step, and ignores that memory limits the number
# of caches. It shows the direction of each effect, not the milliseconds of a production system.
#
# ### Two more ideas
# - **Speculative decoding** ([Leviathan et al., 2023](https://arxiv.org/abs/2211.17192)) lets a small model propose
#   several tokens, which the large model checks in one step. With `step_cost` you can compute that
#   on an H100 a step with 4 new tokens takes no longer than one with a single token.
# - **PagedAttention** ([Kwon et al., 2023](https://arxiv.org/abs/2309.06180)) allocates the cache in small blocks, as an
#   operating system does with pages. A server then does not have to reserve the positions of the
#   longest possible request for each slot.
#
# ## Going further (optional): a classifier needs only replicas (4 minutes)
# For the network of [lab 10](10_train_on_one_device.ipynb), inference over ranks is simple. Every rank has a replica, rank 0
# scatters the images, every rank classifies its part, and rank 0 gathers the labels. Nothing is
# sent in between, because an image does not need any other image. The next cell classifies the same
# images on one rank and on two, and times the whole call and the network alone:

# %%
def classify(comm, net, images):
    """The labels of all images on rank 0; each rank's replica finds those of its part."""
    parts = np.array_split(images, comm.size) if comm.rank == 0 else None
    mine = torch.from_numpy(comm.scatter(parts))
    with torch.inference_mode():
        labels = net(mine).argmax(dim=1).numpy()
    gathered = comm.gather(labels)
    return np.concatenate(gathered) if comm.rank == 0 else None


samples = data.digits()
digits = lab68.classifier(samples)
images = np.tile(samples.test_x, (16, 1))
served = {}
for number in sorted({1, ranks}):
    served[number], whole, net_alone = launch.run(
        lab68.answers_and_time, digits, images, classify, ranks=number, threads=1
    )[0]
    right = np.mean(served[number] == np.tile(samples.test_y, 16))
    record.add("classified", ranks=number, seconds=whole, net_alone=net_alone, right=float(right))
    print(f"ranks: {number}, {right:.1%} right: {whole}\n  the network alone: {net_alone}")
print("the same labels:", np.array_equal(served[1], served[ranks]))

# %% [markdown]
# **Explain.** The network alone takes about half as long on two ranks, because each classifies half
# of the images. The whole call may not be faster: an image of 256 bytes needs only 34,000
# operations, so sending it can take longer than classifying it. A service therefore has a *load
# balancer*, which passes each request directly to one of the replicas.
#
# Replicas improve the throughput, but not the latency of a single image, since one replica still
# does the whole [forward pass](../labs/GLOSSARY.md#forward-pass). To improve the latency, the model has to be partitioned.
#
# ### Further reading
# - G.-I. Yu, J. S. Jeong, G.-W. Kim, S. Kim and B.-G. Chun, *[Orca: A Distributed Serving System for Transformer-Based Generative Models](https://www.usenix.org/conference/osdi22/presentation/yu)*, OSDI, 2022. Scheduling by iterations, and selective batching.
# - W. Kwon et al., *[Efficient Memory Management for Large Language Model Serving with PagedAttention](https://arxiv.org/abs/2309.06180)*, SOSP, 2023. vLLM and its KV cache in blocks.
# - A. Agrawal et al., *[Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve](https://arxiv.org/abs/2403.02310)*, OSDI, 2024. Prefill in chunks, so that decode does not stop.
# - Y. Zhong et al., *[DistServe: Disaggregating Prefill and Decoding for Goodput-optimized Large Language Model Serving](https://arxiv.org/abs/2401.09670)*, OSDI, 2024. Prefill and decode on separate GPUs, sized by the latency that was promised.
# - P. Patel et al., *[Splitwise: Efficient Generative LLM Inference Using Phase Splitting](https://arxiv.org/abs/2311.18677)*, ISCA, 2024. The same idea, with different machines for the two phases.
# - Y. Leviathan, M. Kalman and Y. Matias, *[Fast Inference from Transformers via Speculative Decoding](https://arxiv.org/abs/2211.17192)*, ICML, 2023. Several tokens in one step, with the same distribution of texts.
# - M. Shoeybi et al., *[Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism](https://arxiv.org/abs/1909.08053)*, 2019. The cuts of a layer that we used.
