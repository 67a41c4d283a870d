// First stage of the MXU: takes an MM word, checks its fields and scratchpad bounds, hands it on as a job.
// Two multipliers work through the ten products of a word, seven cycles long, while earlier words run.
// A word that fails is reported once all earlier ones are done.

module dpu_mxu_check
  import dpu_isa_pkg::*;
  import dpu_mxu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned ActWords = 1024,
  parameter int unsigned WgtWords = 1024,
  parameter int unsigned AccWords = 1024,
  parameter int unsigned ParamWords = 1024
) (
  input  logic            clk_i,
  input  logic            rst_ni,
  input  logic            stop_i,

  input  logic            start_valid_i,
  output logic            start_ready_o,
  input  dpu_pkg::word_t  word_i,
  input  logic [31:0]     index_i,

  output logic            job_valid_o,
  input  logic            job_ready_i,
  output job_t            job_o,

  input  logic            idle_i,  // no earlier word is in the engine
  output logic            held_o,  // holds a word
  output dpu_pkg::fault_t fault_o
);

  localparam int unsigned SumW = 40;  // holds every end address: 2^32 tiles of 128 rows, and offsets
  localparam logic [2:0] StepDone = 3'd7;

  typedef logic [SumW-1:0] sum_t;

  // Waiver: header and reserved bits of the word are other modules' business.
  /* verilator lint_off UNUSEDSIGNAL */
  mm_word_t    word_q;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [31:0] index_q;
  logic        held_q, failed_q;
  logic [2:0]  step_q;
  logic        take, leave;

  assign leave         = job_valid_o && job_ready_i;
  assign start_ready_o = (!held_q || leave) && !stop_i && !failed_q;
  assign take          = start_valid_i && start_ready_o;
  assign held_o        = held_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      held_q <= 1'b0;
      step_q <= '0;
    end else begin
      if (take) held_q <= 1'b1;
      else if (leave || fault_o.valid) held_q <= 1'b0;
      if (take) step_q <= '0;
      else if (held_q && step_q != StepDone) step_q <= step_q + 3'd1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      word_q  <= mm_word_t'(word_i);
      index_q <= index_i;
    end
  end

  // The products, two a step.

  logic [15:0] a0, b0, a1, b1;
  logic [31:0] product0_q, product1_q;
  logic [15:0] nx_last, ny_last, nc_last, nn_last;
  logic [7:0]  nkx_last, nky_last;

  assign nx_last  = word_q.nx - 16'd1;
  assign ny_last  = word_q.ny - 16'd1;
  assign nc_last  = word_q.nc - 16'd1;
  assign nn_last  = word_q.nn - 16'd1;
  assign nkx_last = word_q.nkx - 8'd1;
  assign nky_last = word_q.nky - 8'd1;

  always_comb begin
    {a0, b0, a1, b1} = '0;
    unique case (step_q)
      3'd0:    {a0, b0, a1, b1} = {word_q.nx, word_q.ny, 8'd0, word_q.nkx, 8'd0, word_q.nky};
      3'd1:    {a0, b0, a1, b1} = {nn_last, word_q.an, product1_q[15:0], word_q.nc};
      3'd2:    {a0, b0, a1, b1} = {nn_last, word_q.wn, ny_last, word_q.sy};
      3'd3:    {a0, b0, a1, b1} = {nx_last, word_q.sx, 8'd0, nky_last, word_q.sky};
      3'd4:    {a0, b0, a1, b1} = {8'd0, nkx_last, word_q.skx, nc_last, word_q.sc};
      3'd5, 3'd6, 3'd7: ;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (held_q && step_q < 3'd5) begin
      product0_q <= a0 * b0;
      product1_q <= a1 * b1;
    end
  end

  // The end addresses: one past the last word, of ACT the last.

  logic [31:0] rows_q, k_q;
  sum_t        act_q, wgt_q, acc_q, init_q, rowmax_q;

  always_ff @(posedge clk_i) begin
    if (held_q) begin
      unique case (step_q)
        3'd1: begin
          rows_q <= product0_q;
          init_q <= sum_t'(word_q.init_at) + sum_t'(word_q.nn) * sum_t'(Cols);
        end
        3'd2: begin
          acc_q    <= sum_t'(word_q.acc) + sum_t'(product0_q) + sum_t'(rows_q);
          k_q      <= product1_q;
          rowmax_q <= sum_t'(word_q.rowmax_at) + sum_t'(rows_q);
        end
        3'd3: begin
          wgt_q <= sum_t'(word_q.wgt) + sum_t'(product0_q) + sum_t'(k_q) * sum_t'(Cols);
          act_q <= sum_t'(word_q.act) + sum_t'(product1_q);
        end
        3'd4, 3'd5: act_q <= act_q + sum_t'(product0_q) + sum_t'(product1_q);
        3'd0, 3'd6, 3'd7: ;
      endcase
    end
  end

  // The verdict, in the order in which the simulator looks.

  error_e      code_d, code_q;
  logic [31:0] address_d, address_q;
  logic        max_used;
  logic [23:0] columns;

  assign max_used = word_q.rowmax != 8'(RowMaxNone);
  assign columns  = 24'(word_q.nn) * 24'(Cols);

  always_comb begin
    code_d    = ErrorNone;
    address_d = '0;
    if (word_q.nx == '0 || word_q.ny == '0 || word_q.nc == '0 || word_q.nkx == '0 || word_q.nky == '0 ||
        word_q.nn == '0) begin
      code_d = ErrorField;
    end else if (act_q >= sum_t'(ActWords)) begin
      code_d    = ErrorScratchpad;
      address_d = word_q.act;
    end else if (wgt_q > sum_t'(WgtWords)) begin
      code_d    = ErrorScratchpad;
      address_d = word_q.wgt;
    end else if (acc_q > sum_t'(AccWords)) begin
      code_d    = ErrorScratchpad;
      address_d = word_q.acc;
    end else if (word_q.nn != 16'd1 && 32'(word_q.an) < rows_q) begin
      code_d = ErrorField;
    end else if (word_q.mode == 8'(MmModeColumn) && init_q > sum_t'(ParamWords)) begin
      code_d    = ErrorScratchpad;
      address_d = 32'(word_q.init_at);
    end else if (word_q.mode > 8'(MmModeColumn) || word_q.rowmax > 8'(RowMaxAccumulate)) begin
      code_d = ErrorField;
    end else if (max_used && (word_q.valid == '0 || 24'(word_q.valid) > columns)) begin
      code_d = ErrorField;
    end else if (max_used && rowmax_q > sum_t'(ParamWords)) begin
      code_d    = ErrorScratchpad;
      address_d = 32'(word_q.rowmax_at);
    end
  end

  always_ff @(posedge clk_i) begin
    if (held_q && step_q == 3'd6) begin
      code_q    <= code_d;
      address_q <= address_d;
    end
  end

  // Hand on, or report.

  logic checked;

  assign checked       = held_q && step_q == StepDone;
  assign job_valid_o   = checked && code_q == ErrorNone && !stop_i;
  assign fault_o.valid = checked && code_q != ErrorNone && idle_i && !stop_i;

  always_comb begin
    fault_o.code    = code_q;
    fault_o.index   = index_q;
    fault_o.address = 64'(address_q);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) failed_q <= 1'b0;
    else if (fault_o.valid) failed_q <= 1'b1;
  end

  always_comb begin
    job_o           = '0;
    job_o.index     = index_q;
    job_o.act       = word_q.act[15:0];
    job_o.wgt       = word_q.wgt[15:0];
    job_o.acc       = word_q.acc[15:0];
    job_o.nx_last   = nx_last;
    job_o.ny_last   = ny_last;
    job_o.sx        = word_q.sx;
    job_o.sy        = word_q.sy;
    job_o.nc_last   = nc_last;
    job_o.sc        = word_q.sc;
    job_o.nkx_last  = nkx_last;
    job_o.nky_last  = nky_last;
    job_o.skx       = word_q.skx;
    job_o.sky       = word_q.sky;
    job_o.nn_last   = nn_last;
    job_o.k_last    = k_q[15:0] - 16'd1;
    job_o.wn        = word_q.wn;
    job_o.an        = word_q.an;
    job_o.mode      = mm_mode_e'(word_q.mode[3:0]);
    job_o.rowmax    = row_max_e'(word_q.rowmax[3:0]);
    job_o.rowmax_at = word_q.rowmax_at;
    job_o.init_at   = word_q.init_at;
    job_o.valid     = word_q.valid;
  end

endmodule
