"""What five published accounts report, each value beside where a plan of the recipe has it.

Values that an account does not state are not here: recipes mark them as jprep's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from jprep.train.job.tracking import tracker_configs
from tests.unit.pipeline.planned_recipe import Planned

GIB = 1 << 30


class Published(NamedTuple):
    """A published value.

    Attributes:
        what: what it is, in the account's terms.
        expected: the published value.
        planned: returns the value of the plan.
    """

    what: str
    expected: Any
    planned: Callable[[Planned], Any]


def about(value: float) -> Any:
    """Return a number that equals those within a millionth."""
    return pytest.approx(value, rel=1e-6)


def options_of(step: Any) -> dict[str, Any]:
    """Return a corpus step as a table, also where a recipe gives its name only."""
    return {"use": step} if isinstance(step, str) else step


def names(steps: Any) -> list[str]:
    """Return the names of corpus steps."""
    return [options_of(step)["use"] for step in steps]


def first_pieces(planned: Planned, count: int) -> list[str]:
    """Return the pieces of the first ids."""
    return [planned.tokenizer.piece_of(number) for number in range(count)]


def special_pieces(planned: Planned) -> list[str]:
    """Return all special tokens in the order of their ids."""
    return [planned.tokenizer.piece_of(number) for number in sorted(planned.job.special.special)]


def adamw(planned: Planned) -> list[float]:
    """Return AdamW's beta1, beta2, epsilon and weight decay."""
    optimizer = planned.train.optimizer
    return [optimizer.beta1, optimizer.beta2, optimizer.eps, optimizer.weight_decay]


def encoder_sizes(planned: Planned) -> list[int]:
    """Return layers, width, heads and inner width of an encoder."""
    keys = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
    return [planned.job.model[key] for key in keys]


def url_schemes(planned: Planned) -> set[str]:
    """Return the schemes of the sources' URLs."""
    return {path.partition(":")[0] for source in planned.recipe.corpus.sources for path in source.paths}


def wandb_projects(planned: Planned) -> list[str]:
    """Return the projects of wandb that a run is reported to."""
    return [one.project for one in tracker_configs(planned.train.trackers) if one.use == "wandb"]


def zero(planned: Planned) -> dict[str, Any]:
    """Return the section of ZeRO in DeepSpeed's configuration."""
    found: dict[str, Any] = planned.plan.settings["zero_optimization"]
    return found


def decay_schedule(planned: Planned) -> list[Any]:
    """Return how the rate falls, to which share of its peak, and at which step if that is not the last one."""
    schedule = planned.train.schedule
    return [schedule.kind, schedule.floor, schedule.total]


def tokenizer_json(planned: Planned) -> dict[str, Any]:
    """Return the file that `AutoTokenizer` reads."""
    found: dict[str, Any] = json.loads(planned.tokenizer.folder.joinpath("tokenizer.json").read_bytes())
    return found


def bert_normalizer(planned: Planned) -> list[Any]:
    """Return whether the exported tokenizer removes control characters, lower-cases, and strips accents."""
    normalizer = tokenizer_json(planned)["normalizer"]
    [found] = [one for one in [normalizer, *normalizer.get("normalizers", [])] if one["type"] == "BertNormalizer"]
    return [found[key] for key in ("clean_text", "lowercase", "strip_accents")]


ROBERTA_FAIRSEQ = [
    Published("backend", "fairseq-xla", lambda p: p.backend),
    Published("TPU cores", 8, lambda p: p.plan.target and p.plan.target.count),
    Published("a text a line", "line", lambda p: options_of(p.source("train.txt").reader).get("documents")),
    Published("validation text", [True], lambda p: [p.source("test.txt").name in p.recipe.dataset.validation]),
    Published("tokenizer trained on train.txt only", ["test"], lambda p: p.recipe.dataset.held_out),
    Published("normalizers", [], lambda p: p.recipe.corpus.normalizers),
    Published("words are what spaces separate", "spaces", lambda p: p.recipe.corpus.segmenter),
    Published("one id a word", "words", lambda p: p.vocabulary.model),
    Published("special tokens", ["<s>", "<pad>", "</s>", "<unk>"], lambda p: first_pieces(p, 4)),
    Published("task", "mlm", lambda p: p.train.task),
    Published("no next-sentence task", False, lambda p: p.train.next_sentence),
    Published("--arch roberta_base", "roberta", lambda p: p.plan.settings["arch"]),
    Published("layers", 12, lambda p: p.plan.settings["encoder_layers"]),
    Published("width", 768, lambda p: p.plan.settings["encoder_embed_dim"]),
    Published("heads", 12, lambda p: p.plan.settings["encoder_attention_heads"]),
    Published("--sample-break-mode", "complete", lambda p: p.train.packing),
    Published("--tokens-per-sample", 32, lambda p: p.train.length),
    Published("--max-positions", 32, lambda p: p.plan.settings["max_positions"]),
    Published("max_position_embeddings", 34, lambda p: p.job.model["max_position_embeddings"]),
    Published("sentences of an update", 14_336, lambda p: p.train.batch),
    Published("--batch-size, of each device", 1_792, lambda p: p.plan.micro_batch // 8),
    Published("--update-freq", 1, lambda p: p.plan.accumulate),
    Published("--adam-betas", "(0.9, 0.98)", lambda p: p.plan.settings["adam_betas"]),
    Published("--adam-eps", 1e-6, lambda p: p.plan.settings["adam_eps"]),
    Published("--clip-norm", 0.0, lambda p: p.plan.settings["clip_norm"]),
    Published("--weight-decay", 0.01, lambda p: p.plan.settings["weight_decay"]),
    Published("--dropout", 0.1, lambda p: p.plan.settings["dropout"]),
    Published("--attention-dropout", 0.1, lambda p: p.plan.settings["attention_dropout"]),
    Published("--seed", 0, lambda p: p.plan.settings["seed"]),
    Published("--lr", 1e-5, lambda p: p.plan.settings["lr"]),
    Published("--warmup-updates", 3_000, lambda p: p.plan.settings["warmup_updates"]),
    Published("rate of the first update", about(1e-5 / 3_000), lambda p: p.rate(1)),
    Published("rate of update 1,500", about(5e-6), lambda p: p.rate(1_500)),
    Published("rate of update 3,000", about(1e-5), lambda p: p.rate(3_000)),
    Published("rate falls in a straight line", "linear", lambda p: p.plan.settings["kind"]),
    Published("--total-num-update, fairseq's default", 1_000_000, lambda p: p.plan.settings["total_num_update"]),
    Published("rate of update 3,001 + 9,970", about(0.99e-5), lambda p: p.rate(3_001 + 9_970)),
    Published("the rate hardly falls", True, lambda p: p.job.steps > 6_900 and p.rate(-1) > 0.995e-5),
    Published("--max-epoch", 25, lambda p: p.train.epochs),
    Published("--save-interval, in epochs", [280, 559, 838], lambda p: p.saved_steps(3)),
    Published("--validate-interval, in epochs", [280, 559, 838], lambda p: p.validated_steps(3)),
    Published("--keep-last-epochs", 25, lambda p: p.train.checkpoint.keep_last),
    Published("checkpoint_best.pt", 1, lambda p: p.train.checkpoint.keep_best),
    Published("best by", ("loss", "auto"), lambda p: (p.train.checkpoint.best, p.train.checkpoint.best_is)),
    Published("--log-interval", 10, lambda p: p.train.log_every),
    Published("--tensorboard-logdir", ["tensorboard"], lambda p: p.train.trackers),
    Published("PJRT_DEVICE, then XRT_TPU_CONFIG", "TPU", lambda p: p.plan.env["PJRT_DEVICE"]),
]  # fmt: skip

BERT_REGRESSION = [
    Published("backend", "flax", lambda p: p.backend),
    Published("initial weights", "bert-base-uncased", lambda p: p.recipe.train.model.init.rpartition("/")[2]),
    Published("BERT's own tokenizer", None, lambda p: p.recipe.tokenizer),
    Published("no corpus", [], lambda p: p.recipe.corpus.sources),
    Published("column of the text", "excerpt", lambda p: p.train.labelled.text),
    Published("column of the score", "target", lambda p: p.train.labelled.label),
    Published("CSV", [True], lambda p: [path.endswith(".csv") for path in p.recipe.train.data]),
    Published("folds", 5, lambda p: p.train.labelled.folds),
    Published("stratified by the score", True, lambda p: p.train.labelled.stratify in ("quantiles", "width")),
    Published("task", "regress", lambda p: p.train.task),
    Published("one output", 1, lambda p: p.job.model.get("num_labels", 1)),
    Published("steps of ten epochs", True, lambda p: p.job.steps == 10 * (p.job.samples // 32)),
    Published("rows of a step", 32, lambda p: p.train.batch),
    Published("devices", 8, lambda p: p.plan.target and p.plan.target.count),
    Published("rows of each device", 4, lambda p: p.train.batch // (8 * p.plan.accumulate)),
    Published("no accumulation", 1, lambda p: p.plan.accumulate),
    Published("tokens of a row", 128, lambda p: p.train.labelled.length),
    Published("all rows padded to them", [], lambda p: p.train.labelled.buckets),
    Published("AdamW's beta1", 0.9, lambda p: p.train.optimizer.beta1),
    Published("AdamW's beta2", 0.98, lambda p: p.train.optimizer.beta2),
    Published("AdamW's epsilon", 1e-8, lambda p: p.train.optimizer.eps),
    Published("weight decay of matrices", 0.01, lambda p: p.train.optimizer.decay_of(2)),
    Published("weight decay of biases and norms", 0.01, lambda p: p.train.optimizer.decay_of(1)),
    Published("no clipping", 0.0, lambda p: p.train.optimizer.clip),
    Published("first rate", about(2e-5), lambda p: p.rate(1)),
    Published("rate in the middle", about(1e-5), lambda p: p.rate(p.job.steps // 2 + 1)),
    Published("last rate", pytest.approx(0, abs=2.01e-5 / 60), lambda p: p.rate(-1)),
    Published("seed", 0, lambda p: p.train.seed),
    Published("dropout", 0.0, lambda p: p.job.model["hidden_dropout_prob"]),
    Published("dropout of attention", 0.0, lambda p: p.job.model["attention_probs_dropout_prob"]),
    Published("wandb project", ["CommonLit"], wandb_projects),
]  # fmt: skip

WORDPIECE = [
    Published("WordPiece", "wordpiece", lambda p: p.vocabulary.model),
    Published("ids", 25_000, lambda p: p.tokenizer.vocab_size),
    Published("characters", 4_000, lambda p: p.vocabulary.alphabet),
    Published("BERT's words, from raw text", "bert", lambda p: p.vocabulary.boundaries),
    Published("no analyser", "none", lambda p: p.recipe.corpus.segmenter),
    Published("special characters removed", ["characters"], lambda p: names(p.recipe.corpus.normalizers)),
    Published("exact duplicates removed", True, lambda p: p.recipe.corpus.dedup.documents),
    Published("clean_text, case and accents kept", [True, False, False], bert_normalizer),
    Published("prefix of pieces inside words", "##", lambda p: tokenizer_json(p)["model"]["continuing_subword_prefix"]),
    Published("text in shards of 256,000 lines", True, lambda p: "--lines-per-file 256000" in p.text),
    Published("TFRecord", True, lambda p: "--format tfrecord" in p.text),
    Published("logs on gs://", True, lambda p: "gs://BUCKET/logs" in p.text),
    Published("special tokens", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], lambda p: first_pieces(p, 5)),
    Published("ids of the model", 25_000, lambda p: p.job.model["vocab_size"]),
    Published("TPU memory of a core", 16 * GIB, lambda p: p.plan.target and p.plan.target.memory),
    Published("bf16", "bf16", lambda p: p.train.precision),
]  # fmt: skip

BERT_TPU = [
    *WORDPIECE,
    Published("model", "bert", lambda p: p.job.model["model_type"]),
    Published("masked tokens", "mlm", lambda p: p.train.task),
    Published("next sentence", True, lambda p: p.train.next_sentence),
    Published("multiples of 8 rows a core", 0, lambda p: p.plan.micro_batch // 8 % 8),
]

ELECTRA_TPU = [
    *WORDPIECE,
    Published("model", "electra", lambda p: p.job.model["model_type"]),
    Published("replaced tokens", "rtd", lambda p: p.train.task),
    Published("multiples of 8 rows a core", 0, lambda p: p.plan.micro_batch // 8 % 8),
]

GPT2_TPU = [
    Published("byte BPE", "byte-bpe", lambda p: p.vocabulary.model),
    Published("ids in all", 50_000, lambda p: p.tokenizer.vocab_size),
    Published("ids of the model", 50_000, lambda p: p.job.model["vocab_size"]),
    Published("raw text", "none", lambda p: p.vocabulary.boundaries),
    Published("special characters removed", ["characters"], lambda p: names(p.recipe.corpus.normalizers)),
    Published("exact duplicates removed", True, lambda p: p.recipe.corpus.dedup.documents),
    Published("vocab.json and merges.txt", True, lambda p: "--format gpt2" in p.text),
    Published("bf16", "bf16", lambda p: p.train.precision),
    Published("no warm-up, run_clm's default", 0, lambda p: p.train.schedule.warmup),
    Published("model", "gpt2", lambda p: p.job.model["model_type"]),
    Published("PyTorch", "torch", lambda p: p.backend),
    Published("on XLA", "xla", lambda p: p.job.options["device"]),
    Published("cores", 8, lambda p: p.plan.target and p.plan.target.count),
    Published("TPU memory of a core", 16 * GIB, lambda p: p.plan.target and p.plan.target.memory),
    Published("--per_device_train_batch_size", 8, lambda p: p.plan.micro_batch // 8),
    Published("--gradient_accumulation_steps", 1, lambda p: p.plan.accumulate),
    Published("rows of a step", 64, lambda p: p.train.batch),
    Published("context", 1_024, lambda p: p.train.length),
    Published("positions", 1_024, lambda p: p.job.model["n_positions"]),
    Published("blocks of running text", "stream", lambda p: p.train.packing),
    Published("--num_train_epochs", 2, lambda p: p.train.epochs),
    Published("--seed", 42, lambda p: p.train.seed),
    Published("--save_steps", [10_000, 20_000], lambda p: p.saved_steps(2)),
    Published("--save_total_limit", 3, lambda p: p.train.checkpoint.keep_last),
    Published("--learning_rate, run_clm's default", about(5e-5), lambda p: p.rate(1)),
    Published("rate in the middle, linear to 0", about(2.5e-5), lambda p: p.rate(p.job.steps // 2 + 1)),
    Published("AdamW, run_clm's defaults", [0.9, 0.999, 1e-8, 0.0], adamw),
    Published("--max_grad_norm, run_clm's default", 1.0, lambda p: p.train.optimizer.clip),
]  # fmt: skip

ROBERTA_TENSORFLOW = [
    Published("backend", "keras", lambda p: p.backend),
    Published("Keras on TensorFlow", "tensorflow", lambda p: p.job.options["engine"]),
    Published("WikiText from the Hub", {"hf"}, url_schemes),
    Published("validation split as given", True, lambda p: p.source("validation").name in p.recipe.dataset.validation),
    Published("test split as given", True, lambda p: p.source("test").name in p.recipe.dataset.test),
    Published("tokenizer trained on train only", ["test", "validation"], lambda p: sorted(p.recipe.dataset.held_out)),
    Published("checkpoints pushed to the Hub", 1, lambda p: p.train.push.every),
    Published("Unigram", "unigram", lambda p: p.vocabulary.model),
    Published("ids of Hugging Face's example", 10_048, lambda p: p.job.model["vocab_size"]),
    Published("special tokens", {"[CLS]", "[SEP]", "<unk>", "<pad>", "[MASK]"}, lambda p: set(special_pieces(p))),
    Published("mask token", "[MASK]", lambda p: p.tokenizer.piece_of(p.job.special.mask)),
    Published("model", "roberta", lambda p: p.job.model["model_type"]),
    Published("size of roberta-base", [12, 768, 12, 3_072], encoder_sizes),
    Published("masks drawn in the input pipeline", "mlm", lambda p: p.train.task),
    Published("blocks of running text", "stream", lambda p: p.train.packing),
    Published("tokens of a block", 128, lambda p: p.train.length),
    Published("TPUStrategy", "tpu", lambda p: p.plan.target and p.plan.target.kind),
    Published("peak rate", 1e-4, lambda p: p.train.optimizer.lr),
    Published("weight decay", 0.0, lambda p: p.train.optimizer.weight_decay),
    Published("epochs", 500, lambda p: p.train.epochs),
]  # fmt: skip

GPT2_XL = [
    Published("backend", "deepspeed", lambda p: p.backend),
    Published("Wikipedia of 2022-07-01", True, lambda p: "20220701" in "".join(p.source("jawiki").paths)),
    Published("CC-100, Japanese", "cc100", lambda p: options_of(p.source("ja.txt").reader)["use"]),
    Published("wikiextractor", "wikiextractor", lambda p: options_of(p.source("jawiki").reader).get("extractor")),
    Published("neologdn", ["neologdn"], lambda p: names(p.recipe.corpus.normalizers)),
    Published("ssplit's rules", ["rules"], lambda p: names([p.recipe.corpus.splitter])),
    Published("Juman++", ["jumanpp"], lambda p: names([p.recipe.corpus.segmenter])),
    Published("no filters", [], lambda p: p.recipe.corpus.filters),
    Published("BPE", "bpe", lambda p: p.vocabulary.model),
    Published("ids", 50_000, lambda p: p.tokenizer.vocab_size),
    Published("ids of the model", 50_000, lambda p: p.job.model["vocab_size"]),
    Published("characters", 8_000, lambda p: p.vocabulary.alphabet),
    Published("min_frequency", 1, lambda p: p.vocabulary.least_count),
    Published("pre-tokenizer at spaces", "spaces", lambda p: p.vocabulary.boundaries),
    Published("special tokens exactly", ["<unk>", "<s>", "</s>"], special_pieces),
    Published("their ids", [0, 1, 2], lambda p: sorted(p.job.special.special)),
    Published("pad_token_id", 2, lambda p: p.tokenizer.pad),
    Published("layers", 48, lambda p: p.job.model["n_layer"]),
    Published("width", 1_600, lambda p: p.job.model["n_embd"]),
    Published("heads", 20, lambda p: p.job.model["n_head"]),
    Published("1.5 B parameters", True, lambda p: 1.5e9 < p.job.parameters < 1.6e9),
    Published("GPUs", 8, lambda p: p.plan.processes),
    Published("memory of a GPU", 40 * GIB, lambda p: p.plan.target and p.plan.target.memory),
    Published("ZeRO stage", 2, lambda p: zero(p)["stage"]),
    Published("bf16", {"enabled": True}, lambda p: p.plan.settings["bf16"]),
    Published("train_batch_size: auto", 528, lambda p: p.plan.settings["train_batch_size"]),
    Published("train_micro_batch_size_per_gpu: auto", 3, lambda p: p.plan.settings["train_micro_batch_size_per_gpu"]),
    Published("gradient_accumulation_steps: auto", 22, lambda p: p.plan.settings["gradient_accumulation_steps"]),
    Published("allgather_bucket_size", 2e8, lambda p: zero(p)["allgather_bucket_size"]),
    Published("reduce_bucket_size", 2e8, lambda p: zero(p)["reduce_bucket_size"]),
    Published("cpu_offload, renamed", "cpu", lambda p: zero(p)["offload_optimizer"]["device"]),
    Published("no cpu_offload is left", False, lambda p: "cpu_offload" in zero(p)),
    Published("rows of a step", 528, lambda p: p.plan.processes * p.plan.micro_batch * p.plan.accumulate),
    Published("peak rate", 3e-4, lambda p: p.train.optimizer.lr),
    Published("WarmupDecayLR", ["linear", 0.0, 0], decay_schedule),
    Published("weight decay", 0.1, lambda p: p.train.optimizer.weight_decay),
    Published("beta2", 0.95, lambda p: p.train.optimizer.beta2),
    Published("epochs", 10, lambda p: p.train.epochs),
]  # fmt: skip

ACCOUNTS = {
    "roberta-fairseq-tpu": ROBERTA_FAIRSEQ,
    "bert-regression-flax": BERT_REGRESSION,
    "bert-tpu": BERT_TPU,
    "electra-tpu": ELECTRA_TPU,
    "gpt2-tpu": GPT2_TPU,
    "roberta-tensorflow": ROBERTA_TENSORFLOW,
    "gpt2-xl-japanese": GPT2_XL,
}
"""Recipe → the values that its account reports."""
