"""Matrix products as decisions, judged before anything is built."""

from __future__ import annotations

from einbound.kernels.bounds import clock_bound, model_score, score_bound
from einbound.kernels.cost import Cost, Transfer, cost, least_cost
from einbound.kernels.decision_json import from_json, to_json
from einbound.kernels.decisions import (
    Axis,
    Batch,
    BatchKind,
    CpuBlocktile,
    CpuPacked,
    Decision,
    FormKind,
    Fusion,
    FusionKind,
    Geometry,
    GeometryChoice,
    GpuBlocktile,
    GpuMma,
    Group,
    IndexOrder,
    Lattice,
    LatticeBox,
    Packing,
    PackingKind,
    PackingShape,
    Pipeline,
    PipelineKind,
    RegisterTile,
    Roles,
    RolesKind,
    RowBlock,
    ShapeKind,
    TensorizedForm,
    Twin,
    TwinKind,
    render_path,
)
from einbound.kernels.family import family_tree, lift_lattice
from einbound.kernels.floors import floor
from einbound.kernels.groups import GroupAxis, Groups
from einbound.kernels.menu import Menu
from einbound.kernels.numerics import HalfArithmetic, Numerics
from einbound.kernels.path_floor import path_floor
from einbound.kernels.problem import BLayout, MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.kernels.views import oriented, seen_by, viewed
from einbound.machine.limits import CacheLevel, HardwareLimits, MmaLimits
from einbound.machine.precision import Precision
from einbound.machine.target import target_limits

__all__ = [
    "Axis",
    "BLayout",
    "Batch",
    "BatchKind",
    "CacheLevel",
    "Cost",
    "CpuBlocktile",
    "CpuPacked",
    "Decision",
    "FormKind",
    "Fusion",
    "FusionKind",
    "Geometry",
    "GeometryChoice",
    "GpuBlocktile",
    "GpuMma",
    "Group",
    "GroupAxis",
    "Groups",
    "HalfArithmetic",
    "HardwareLimits",
    "IndexOrder",
    "KernelSpec",
    "Lattice",
    "LatticeBox",
    "MatmulProblem",
    "Menu",
    "MmaLimits",
    "Numerics",
    "Packing",
    "PackingKind",
    "PackingShape",
    "Pipeline",
    "PipelineKind",
    "Precision",
    "RegisterTile",
    "Roles",
    "RolesKind",
    "RowBlock",
    "ShapeKind",
    "TensorizedForm",
    "Transfer",
    "Twin",
    "TwinKind",
    "clock_bound",
    "cost",
    "family_tree",
    "floor",
    "from_json",
    "least_cost",
    "lift_lattice",
    "model_score",
    "oriented",
    "path_floor",
    "render_path",
    "score_bound",
    "seen_by",
    "target_limits",
    "to_json",
    "viewed",
]
