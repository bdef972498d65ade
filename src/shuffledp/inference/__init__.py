"""Learn a distribution, test whether it is uniform or a known one, and plan how many people that takes."""

from shuffledp.inference.accuracy import Accuracy, Noise
from shuffledp.inference.complexity import sample_complexity
from shuffledp.inference.learning import Bisected, Learned, bisect_quantile, learn, total_variation
from shuffledp.inference.robust import (
    MedianOfGroups,
    ask_groups,
    count_honest,
    median_of_groups,
    protect_members,
    worst_bias,
)
from shuffledp.inference.testing_complexity import Order, SampleComplexity
from shuffledp.inference.uniformity import (
    IdentityTests,
    UniformityTest,
    identity_test,
    identity_tests,
    uniformity_test,
)

__all__ = [
    "Accuracy",
    "Bisected",
    "IdentityTests",
    "Learned",
    "MedianOfGroups",
    "Noise",
    "Order",
    "SampleComplexity",
    "UniformityTest",
    "ask_groups",
    "bisect_quantile",
    "count_honest",
    "identity_test",
    "identity_tests",
    "learn",
    "median_of_groups",
    "protect_members",
    "sample_complexity",
    "total_variation",
    "uniformity_test",
    "worst_bias",
]
