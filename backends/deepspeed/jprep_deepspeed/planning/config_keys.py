"""The keys of a DeepSpeed configuration (0.19): which jprep accepts, and why it refuses others."""

from __future__ import annotations

from typing import Any

_COUNTERS = ("reduce_bucket_size", "allgather_bucket_size", "sub_group_size")
_STAGE3 = (
    "prefetch_bucket_size", "param_persistence_threshold", "model_persistence_threshold", "max_live_parameters",
    "max_reuse_distance", "module_granularity_threshold",
)  # fmt: skip
_SWITCHES = (
    "contiguous_gradients", "reduce_scatter", "use_multi_rank_bucket_allreduce", "allgather_partitions",
    "overlap_comm", "parameter_alignment", "ignore_unused_parameters",
    "load_from_fp32_weights", "stage3_gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save",
    "stage3_use_all_reduce_for_fetch_params", "stage3_allgather_sequential", "memory_efficient_linear",
    "override_module_apply", "log_trace_cache_warnings", "enable_sanity_checks",
)  # fmt: skip

_ZERO: dict[str, Any] = {
    "stage": int,
    **dict.fromkeys((*_COUNTERS, *(f"stage3_{name}" for name in _STAGE3)), int),
    **dict.fromkeys(_SWITCHES, bool),
    "compute_grad_norm": bool,
    "zero_hpz_partition_size": int,
    "offload_optimizer": {
        "device": str, "pin_memory": bool, "buffer_count": int, "fast_init": bool, "pipeline_read": bool,
        "pipeline_write": bool, "ratio": float, "cpuadam_cores_perc": float, "nvme_path": str,
    },
    "offload_param": {"device": str, "pin_memory": bool, "buffer_count": int, "buffer_size": int, "max_in_cpu": int},
}  # fmt: skip

_ADAM = {
    "lr": float, "betas": list, "eps": float, "weight_decay": float, "adam_w_mode": bool, "torch_adam": bool,
    "bias_correction": bool, "amsgrad": bool, "max_grad_norm": float, "fused": bool, "foreach": bool, "momentum": float,
}  # fmt: skip

_WARMUP = {
    "warmup_min_lr": float, "warmup_max_lr": float, "warmup_num_steps": int, "warmup_type": str,
    "total_num_steps": int, "cos_min_ratio": float, "warmup_min_ratio": float, "last_batch_iteration": int,
}  # fmt: skip

KNOWN_KEYS: dict[str, Any] = {
    "train_batch_size": int,
    "train_micro_batch_size_per_gpu": int,
    "gradient_accumulation_steps": int,
    "gradient_clipping": float,
    "gradient_predivide_factor": float,
    "gradient_allreduce_op": str,
    "communication_data_type": str,
    "data_types": {"grad_accum_dtype": str, "param_dtype": str},
    "steps_per_print": int,
    "wall_clock_breakdown": bool,
    "memory_breakdown": bool,
    "dump_state": bool,
    "disable_python_gc": bool,
    "log_level": str,
    "zero_allow_untested_optimizer": bool,
    "zero_force_ds_cpu_optimizer": bool,
    "vocabulary_size": int,
    "comms_logger": {"enabled": bool, "prof_all": bool, "prof_ops": list, "verbose": bool, "debug": bool},
    "flops_profiler": {
        "enabled": bool, "recompute_fwd_factor": float, "profile_step": int, "module_depth": int,
        "top_modules": int, "detailed": bool, "output_file": str,
    },
    "timers": {"throughput": {"enabled": bool, "synchronized": bool}},
    "bf16": {
        "enabled": bool, "check_grad_overflow": bool, "bf16_master_weights_and_grads": bool,
        "bf16_optimizer_states": bool,
    },
    "fp16": {
        "enabled": bool, "loss_scale": float, "initial_scale_power": int, "loss_scale_window": int,
        "hysteresis": int, "consecutive_hysteresis": bool, "min_loss_scale": float,
        "fp16_master_weights_and_grads": bool,
    },
    "torch_autocast": {"enabled": bool, "dtype": str},
    "zero_optimization": _ZERO,
    "aio": {
        "block_size": int, "queue_depth": int, "intra_op_parallelism": int, "single_submit": bool,
        "overlap_events": bool, "use_gds": bool,
    },
    "optimizer": {"type": str, "params": _ADAM},
    "scheduler": {"type": str, "params": _WARMUP},
}  # fmt: skip
"""Key → type of its value, or the keys of its section."""

_DATA = "it changes the training data, and jprep makes the batches"
_OTHER = "it changes what is computed"
_OWN_MUON = "jprep has a Muon of its own, whose momentum is part of the optimizer state"
_ONE_RATE = "jprep has one learning rate for all weights: optimizer.params.lr"
_PARTS = "jprep supports data parallelism and ZeRO; it does not split the layers of a model"
_SAVED = "jprep saves checkpoints itself: [train.checkpoint]"
_TRACKED = "jprep records metrics itself: train.trackers, and events.jsonl in the run directory"
_REMOVED = "DeepSpeed has removed it"

REFUSED_KEYS: dict[str, str] = {
    **dict.fromkeys(("curriculum_learning", "data_efficiency", "dataloader_drop_last"), _DATA),
    **dict.fromkeys(("compression_training", "quantize_training", "weight_quantization", "eigenvalue"), _OTHER),
    **dict.fromkeys(("progressive_layer_drop", "sparse_attention", "sparse_gradients", "prescale_gradients"), _OTHER),
    **dict.fromkeys(("hybrid_engine", "compile", "fp32_allreduce", "disable_allgather"), _OTHER),
    **dict.fromkeys(("pipeline", "tensor_parallel", "expert_parallel", "moe", "sequence_parallel_size"), _PARTS),
    **dict.fromkeys(("use_data_before_expert_parallelism", "seq_parallel_communication_data_type"), _PARTS),
    **dict.fromkeys(("checkpoint", "nebula", "datastates", "datastates_ckpt"), _SAVED),
    **dict.fromkeys(("tensorboard", "wandb", "csv_monitor", "comet", "monitor_config"), _TRACKED),
    "elasticity": "runs resume without it on any number of processes that divides train.batch",
    "autotuning": "jprep's plan chooses the micro-batch and the stage",
    "activation_checkpointing": "set `gradient_checkpointing = true` in [train.backend.deepspeed]",
    "amp": "DeepSpeed has removed Apex; set train.precision",
    "managed_gradient_accumulation": "jprep's plan determines gradient accumulation",
    "bf16.immediate_grad_update": _OTHER,
    "fp16.auto_cast": _OTHER,
    "torch_autocast.lower_precision_safe_modules": _OTHER,
    "data_types.buffer_dtype": _OTHER,
    "data_types.keep_in_fp32_modules": _OTHER,
    "optimizer.legacy_fusion": _OTHER,
    "optimizer.params.ns_method": _OWN_MUON,
    "optimizer.params.per_head_muon": _OWN_MUON,
    "optimizer.params.muon_lr": _ONE_RATE,
    "optimizer.params.adam_lr": _ONE_RATE,
    "zero_optimization.cpu_offload_use_pin_memory": '"pin_memory" of an offload has replaced it',
    "zero_optimization.elastic_checkpoint": _SAVED,
    "zero_optimization.pipeline_loading_checkpoint": _SAVED,
    "zero_optimization.round_robin_gradients": "DeepSpeed 0.19 then confuses the fp32 weights of stages 1 and 2",
    "zero_optimization.legacy_stage1": _REMOVED,
    "zero_optimization.zenflow": _OTHER,
    "zero_optimization.leaf_module": _PARTS,
    "zero_optimization.mics_shard_size": _REMOVED,
    "zero_optimization.mics_hierarchical_params_gather": _REMOVED,
    "zero_optimization.zeropp_loco_param": _REMOVED,
    "zero_optimization.zero_quantized_weights": _OTHER,
    "zero_optimization.zero_quantized_nontrainable_weights": _OTHER,
    "zero_optimization.zero_quantized_gradients": _OTHER,
    "zero_optimization.save_muon_momentum_buffer_in_memory": _OWN_MUON,
    "zero_optimization.offload_optimizer.super_offload": _OTHER,
    "zero_optimization.offload_param.nvme_path": 'jprep keeps weights on the device or in main memory: "device": "cpu"',
}
"""Key → why jprep refuses it, unless it is disabled."""

FORMER_THREADS, THREADS = "thread_count", "intra_op_parallelism"
"""A former key of aio, and its name today."""

RENAMED_OFFLOADS = {
    "cpu_offload": "offload_optimizer",
    "cpu_offload_param": "offload_param",
    "cpu_offload_params": "offload_param",
}
"""Former keys of zero_optimization, true or false: the sections whose device was the CPU where they are true."""

FP16_SCALE = ("initial_scale_power", "loss_scale_window", "hysteresis", "consecutive_hysteresis", "min_loss_scale")
"""Keys of fp16 without effect: docs/training.md defines the loss scale. A note names them."""
