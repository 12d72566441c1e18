"""A checkpoint in parts: every process writes its own by torch.distributed.checkpoint, as safetensors.

`step-N/model/` and `step-N/optimizer/` hold a file a process, whose header says which part of which tensor is
where; state.json and the manifest are those of every checkpoint, and the manifest is last. Read back by
training/checkpoint.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_saver import save

from attnlab.runs.atomic import as_bytes, hash_of
from attnlab.runs.checkpoints import Checkpoints, FileRecord
from attnlab.training.checkpoint import MODEL, OPTIMIZER, STATE, Checkpoint, frozen_file
from attnlab.training.strategies.processes import Processes


def save_shards(checkpoints: Checkpoints, step: int, checkpoint: Checkpoint, processes: Processes) -> Path:
    """Write a checkpoint, every process its part; gives its folder."""
    place = checkpoints.path(step)
    if processes.of_first(place.exists()):
        return place
    frozen = {name: value for name, value in checkpoint.model.items() if name in checkpoint.frozen}
    trained = {name: value for name, value in checkpoint.model.items() if name not in frozen}
    shared = frozen_file({name: whole_tensor(value) for name, value in frozen.items()})
    if processes.first:
        checkpoints.begin(step, parts=(MODEL, OPTIMIZER))
    processes.meet()
    beside = checkpoints.unfinished(step)
    own: dict[str, FileRecord] = {}
    for part, tensors in ((MODEL, trained), (OPTIMIZER, checkpoint.optimizer)):
        if tensors:
            writer = HuggingFaceStorageWriter(str(beside / part), save_distributed=True)
            save(dict[str, Any](tensors), storage_writer=writer)
        own |= written_by(beside, part, processes.rank)
    files = {name: record for records in processes.gather(own) for name, record in records.items()}
    if processes.first:
        state = {STATE: lambda: as_bytes(checkpoint.state)}
        checkpoints.finish(step, state, shared, written=files, answer=list(checkpoint.answer))
    processes.meet()
    return place


def written_by(folder: Path, part: str, rank: int) -> dict[str, FileRecord]:
    """The size and hash of the files that a process wrote."""
    files = sorted((folder / part).glob(f"shard-{rank + 1:05d}-*"))
    return {f"{part}/{file.name}": {"bytes": file.stat().st_size, "sha256": hash_of(file)} for file in files}


def whole_tensor(tensor: Tensor) -> Tensor:
    """A tensor of which every process has a part."""
    gather = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()
