"""The precision frontier of the small trained model: pictures on the simulator, their quality, and what they cost."""
