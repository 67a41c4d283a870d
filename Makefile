# Targets: demo, test, test-slow, lint, lint-rtl, formal, gpu-evidence, train, sdxl-quality, clean. Everything happens in .venv, made on first use from python3 (3.11 or newer).

PYTHON ?= python3
PIP_FLAGS ?=
WORKERS ?= 2
OUT := out
BIN := .venv/bin
GPU := h200
STAMP := .venv/.installed
# No network of models/tiny was trained on this caption (bench/train/captions.py).
PROMPT := three hearts on the left on a green background

# Threads that spin while they wait starve their neighbours; the demo's tensors are too small to share out anyway.
export OMP_WAIT_POLICY ?= passive
export OMP_NUM_THREADS ?= 1
export HF_HUB_OFFLINE := 1

.PHONY: demo test test-slow lint lint-rtl formal gpu-evidence train sdxl-quality clean
.DELETE_ON_ERROR:

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "needs Python 3.11 or newer"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install $(PIP_FLAGS) -qq --editable '.[dev]'
	touch $@

demo: $(STAMP)
	mkdir -p $(OUT)
	$(BIN)/dpuc export models/tiny --size 128 -o $(OUT)/tiny
	$(BIN)/dpuc calibrate $(OUT)/tiny -o $(OUT)/calib.safetensors
	$(BIN)/dpuc compile $(OUT)/tiny --arch dpu_tiny --precision w8a8 \
	  --calibration $(OUT)/calib.safetensors -o $(OUT)/tiny.dpu
	$(BIN)/dpurun $(OUT)/tiny --target cpu --prompt "$(PROMPT)" --seed 7 -o $(OUT)/reference.png
	$(BIN)/dpurun $(OUT)/tiny.dpu --target sim --prompt "$(PROMPT)" --seed 7 \
	  --compare $(OUT)/tiny -o $(OUT)/out.png --trace $(OUT)/trace.json --report $(OUT)/report
	$(BIN)/dpubench caption $(OUT)/reference.png $(OUT)/out.png --prompt "$(PROMPT)"
	$(BIN)/dpubench held-out $(OUT)/tiny.dpu $(OUT)/tiny --prompts 6 -o $(OUT)/held_out.png
	$(BIN)/dpuc compile configs/workload/sdxl_base --arch dpu_f2,dpu_32tops,dpu_asic --estimate

test: lint
	$(BIN)/pytest -q -m "not slow" -n $(WORKERS) --dist loadfile

test-slow: $(STAMP)
	$(BIN)/pytest -q -m slow

lint: $(STAMP) lint-rtl
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	# mypy names a package after its folder; a checkout may be called anything, so it sees the root as `dpu`.
	mkdir -p .venv/lint && ln -sfn ../.. .venv/lint/dpu
	cd .venv/lint && ../bin/mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache \
	  --exclude '/(tests|build|dist|out|rtl/bench)/' dpu

lint-rtl: $(STAMP)
	$(BIN)/python -m dpu.rtl.lint

# On a machine with the NVIDIA GPU of configs/gpu/$(GPU).json: measures what out/gpu lacks, puts it into results/gpu and
# renders the tables. About an hour.
gpu-evidence: $(STAMP)
	$(BIN)/python -m pip install $(PIP_FLAGS) -qq --editable '.[gpu]'
	# Both packages are called onnxruntime inside: the one without CUDA goes, and its files with it.
	$(BIN)/python -m pip uninstall -qq -y onnxruntime
	$(BIN)/python -m pip install $(PIP_FLAGS) -qq --force-reinstall --no-deps onnxruntime-gpu
	mkdir -p $(OUT) results/gpu
	$(BIN)/dpubench gpu -o $(OUT)/gpu --points all --budget-seconds 5400; \
	  $(BIN)/dpubench gpu -o $(OUT)/gpu --merge results/gpu/$(GPU).json --peer $(GPU)

# On a machine with an NVIDIA GPU: trains the small pipeline of bench/train and evaluates it. 22 minutes; continues.
train: $(STAMP)
	$(BIN)/python -m dpu.bench.train --out $(OUT)/train

# SDXL's quality with weights that you have: MODEL is a diffusers SDXL folder; nothing is downloaded. With a CUDA GPU
# DEVICE=cuda: about 6 minutes a picture and precision. COUNT=1 rehearses; PLAN=1 only says what it takes.
PRECISIONS ?= w8a8,w8a8-static,w4a8
DEVICE ?= cpu
COUNT ?= 0
STEPS ?= 20
RESULT ?= results/quality/sdxl.json
SDXL_WORK ?= $(OUT)/sdxl-quality
sdxl-quality: export OMP_NUM_THREADS = $(shell nproc 2>/dev/null || echo 2)
sdxl-quality: $(STAMP)
	@test -n "$(MODEL)" || { echo 'MODEL is missing: make sdxl-quality MODEL=DIR, a diffusers SDXL folder with its' \
	  'weights; for a rehearsal: $(BIN)/dpuc export sdxl -o $(OUT)/sdxl'; exit 2; }
	mkdir -p $(dir $(RESULT))
	$(BIN)/dpubench sdxl-quality "$(MODEL)" --precisions "$(PRECISIONS)" --count $(COUNT) --steps $(STEPS) \
	  --device $(DEVICE) $(if $(INCEPTION),--inception "$(INCEPTION)") $(if $(STATISTICS),--statistics "$(STATISTICS)") \
	  $(if $(CLIP),--clip "$(CLIP)") $(if $(CAPTIONS),--captions "$(CAPTIONS)") $(if $(PLAN),--plan) $(if $(JOBS),--jobs $(JOBS)) \
	  --work "$(SDXL_WORK)" -o "$(RESULT)"

# Minutes to an hour of one core; writes results/rtl/formal.json and the table of rtl/formal/README.md.
formal: $(STAMP)
	$(BIN)/python -m dpu.rtl.formal

clean:
	rm -rf .venv build dist *.egg-info $(OUT) .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
