"""Upgrade: from a checkpoint to a V14 directory, with voters chosen and calibrated for its weights."""

from v14.upgrade.make import upgrade
from v14.upgrade.report import Report, Silent

__all__ = ["Report", "Silent", "upgrade"]
