"""How traces lie on disk: as they were computed, or smaller."""
