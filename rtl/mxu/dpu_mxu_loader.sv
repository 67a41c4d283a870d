// Weight loader of the MXU: reads weight tiles, R rows each, into the array's shadow registers, and the column vector
// of a tile that starts from one. Runs one tile ahead of the streamer, also into the next word.
// Reports a weight of -128.

module dpu_mxu_loader
  import dpu_isa_pkg::*;
  import dpu_mxu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8,
  parameter int unsigned WgtWords = 1024,
  parameter int unsigned ParamWords = 1024,
  localparam int unsigned WgtAw = $clog2(WgtWords),
  localparam int unsigned ParamAw = $clog2(ParamWords),
  localparam int unsigned RowW = $clog2(Cols)
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,

  input  logic                 job_valid_i,
  output logic                 job_ready_o,
  input  job_t                 job_i,

  // to the streamer: the word, and a tile whose first row may enter
  output logic                 next_valid_o,
  input  logic                 next_ready_i,
  output job_t                 next_o,
  output logic                 tile_ready_o,
  input  logic                 tile_enter_i,  // its first row is addressed

  // weights; the array sees the data of the cycle after the address
  output logic                 wgt_rd_valid_o,
  output logic [WgtAw-1:0]     wgt_rd_addr_o,
  input  logic [Cols*8-1:0]    wgt_rd_data_i,
  output logic                 shadow_valid_o,
  output logic [RowW-1:0]      shadow_row_o,

  // column vector
  output logic                 param_rd_valid_o,
  input  logic                 param_rd_ready_i,
  output logic [ParamAw-1:0]   param_rd_addr_o,
  input  logic [Lanes*32-1:0]  param_rd_data_i,
  output logic                 column_used_o,  // the tile that waits starts from it
  output logic [Cols*32-1:0]   column_o,

  output logic                 held_o,
  output logic                 failed_o,
  output dpu_pkg::fault_t      fault_o
);

  localparam int unsigned Chains = chains(Cols);
  localparam logic [Chains-1:0] ChainMask = Chains'((64'd1 << (Chains - 1)) - 64'd1);
  localparam int unsigned Pieces = Cols / Lanes;
  localparam int unsigned PieceW = Pieces > 1 ? $clog2(Pieces) : 1;

  // The word, and where in it.

  // Waiver: the streamer uses the fields that this module does not.
  /* verilator lint_off UNUSEDSIGNAL */
  job_t              job_q;
  logic [15:0]       wgt_q, init_q;  // upper bits: a buffer may have fewer than 2^16 words
  /* verilator lint_on UNUSEDSIGNAL */
  logic              held_q, taken_q, loaded_q, failed_q;
  logic [15:0]       wgt_n_q, n_q, k_q;
  logic [RowW-1:0]   row_q;
  logic              load, leave, row_first, row_last, tile_last, shadow_full_q;
  logic [Chains-1:0] entered_q;  // the swap is on its way through the column groups; the last bit stays 0

  assign row_first   = row_q == '0;
  assign row_last    = row_q == RowW'(Cols - 1);
  assign tile_last   = k_q == job_q.k_last && n_q == job_q.nn_last;
  assign load        = held_q && !loaded_q && !failed_q && !(row_first && (shadow_full_q || entered_q != '0));
  assign leave       = held_q && (loaded_q || (load && row_last && tile_last)) && (taken_q || next_ready_i);
  assign job_ready_o = (!held_q || leave) && !failed_q;

  assign next_valid_o = held_q && !taken_q;
  assign next_o       = job_q;
  assign held_o       = held_q;
  assign failed_o     = failed_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      held_q   <= 1'b0;
      taken_q  <= 1'b0;
      loaded_q <= 1'b0;
    end else if (job_ready_o) begin
      held_q   <= job_valid_i;
      taken_q  <= 1'b0;
      loaded_q <= 1'b0;
    end else begin
      if (next_valid_o && next_ready_i) taken_q <= 1'b1;
      if (load && row_last && tile_last) loaded_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (job_ready_o && job_valid_i) begin
      job_q   <= job_i;
      wgt_q   <= job_i.wgt;
      wgt_n_q <= job_i.wgt;
      init_q  <= job_i.init_at;
      k_q     <= '0;
      n_q     <= '0;
      row_q   <= '0;
    end else if (load) begin
      row_q <= row_q + RowW'(1);
      wgt_q <= wgt_q + 16'd1;
      if (row_last) begin
        k_q <= k_q + 16'd1;
        if (k_q == job_q.k_last) begin
          k_q     <= '0;
          n_q     <= n_q + 16'd1;
          wgt_q   <= wgt_n_q + job_q.wn;
          wgt_n_q <= wgt_n_q + job_q.wn;
          init_q  <= init_q + 16'(Cols);
        end
      end
    end
  end

  assign wgt_rd_valid_o = load;
  assign wgt_rd_addr_o  = wgt_q[WgtAw-1:0];

  // A tile waits in the shadow registers from its first weight row until its first row enters. It may enter when the
  // weights are so far ahead that the rows of activations never catch up with them.

  logic [Chains-1:0] started_q;
  logic              weights_ready_q, column_busy_q, column_used_q, start;

  assign start = load && row_first;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      shadow_full_q   <= 1'b0;
      weights_ready_q <= 1'b0;
      started_q       <= '0;
      entered_q       <= '0;
    end else begin
      started_q <= Chains'({started_q, start});
      entered_q <= Chains'({entered_q, tile_enter_i}) & ChainMask;
      if (start) shadow_full_q <= 1'b1;
      else if (tile_enter_i) shadow_full_q <= 1'b0;
      if (started_q[Chains-1]) weights_ready_q <= 1'b1;
      else if (tile_enter_i) weights_ready_q <= 1'b0;
    end
  end

  assign tile_ready_o = weights_ready_q && !column_busy_q && !failed_q;

  // The column vector of the tile in the shadow registers.

  logic [PieceW-1:0]   piece_q, piece_data_q;
  logic [15:0]         column_at_q;
  logic                column_arrives_q, column_last;

  assign column_last      = piece_q == PieceW'(Pieces - 1);
  assign param_rd_valid_o = column_busy_q;
  assign param_rd_addr_o  = column_at_q[ParamAw-1:0];
  assign column_used_o    = column_used_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      column_busy_q    <= 1'b0;
      column_used_q    <= 1'b0;
      column_arrives_q <= 1'b0;
    end else begin
      if (start) begin
        column_busy_q <= job_q.mode == MmModeColumn && k_q == '0;
        column_used_q <= job_q.mode == MmModeColumn && k_q == '0;
      end else if (param_rd_ready_i && column_last) begin
        column_busy_q <= 1'b0;
      end
      column_arrives_q <= column_busy_q && param_rd_ready_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (start) begin
      piece_q     <= '0;
      column_at_q <= init_q;
    end else if (column_busy_q && param_rd_ready_i) begin
      piece_q     <= piece_q + PieceW'(1);
      column_at_q <= column_at_q + 16'(Lanes);
    end
    piece_data_q <= piece_q;
    if (column_arrives_q) column_o[32'(piece_data_q)*Lanes*32+:Lanes*32] <= param_rd_data_i;
  end

  // Weights on their way: data now, looked at in the same cycle, reported in the next.

  logic            arrives_q, bad, fault_q;
  logic [RowW-1:0] row_data_q;
  logic [15:0]     wgt_data_q, wgt_fault_q;
  logic [31:0]     index_data_q, index_fault_q;

  assign shadow_valid_o = arrives_q;
  assign shadow_row_o   = row_data_q;

  function automatic logic minus_128(logic [Cols*8-1:0] weights);
    logic found = 1'b0;
    for (int unsigned c = 0; c < Cols; c++) found |= weights[c*8+:8] == 8'h80;
    return found;
  endfunction

  assign bad = arrives_q && !failed_q && minus_128(wgt_rd_data_i);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      arrives_q <= 1'b0;
      failed_q  <= 1'b0;
      fault_q   <= 1'b0;
    end else begin
      arrives_q <= load;
      failed_q  <= failed_q || bad;
      fault_q   <= bad;
    end
  end

  always_ff @(posedge clk_i) begin
    if (load) begin
      row_data_q   <= row_q;
      wgt_data_q   <= wgt_q;
      index_data_q <= job_q.index;
    end
    if (bad) begin
      wgt_fault_q   <= wgt_data_q;
      index_fault_q <= index_data_q;
    end
  end

  assign fault_o = '{valid: fault_q, code: ErrorNumeric, index: index_fault_q, address: 64'(wgt_fault_q)};

endmodule
