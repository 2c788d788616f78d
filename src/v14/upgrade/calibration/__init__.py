"""The synthetic set that voters are chosen and calibrated with. Its facts and names belong to no check."""

from v14.upgrade.calibration.build import CalibrationSet, Chat, Question, build, values

__all__ = ["CalibrationSet", "Chat", "Question", "build", "values"]
