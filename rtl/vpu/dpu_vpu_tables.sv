// The gate tables: slots of 256 entries that LOAD writes, read by every lane at once, an entry a cycle.
// The header of an image gives the slot's shifts and marks it as loaded; only reset takes that back.
// A synthesiser keeps a copy of the memory for each lane.

module dpu_vpu_tables
  import dpu_fp_pkg::*;
#(
  parameter int unsigned Lanes = 8
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,

  input  logic                    wr_valid_i,
  input  logic [0:0]              wr_slot_i,
  input  logic                    wr_header_i,
  input  logic [7:0]              wr_index_i,
  input  logic [127:0]            wr_data_i,

  output logic [1:0]              loaded_o,
  output gate_config_t [1:0]      config_o,

  input  logic [Lanes-1:0]        rd_valid_i,
  input  logic [Lanes-1:0]        rd_slot_i,
  input  logic [Lanes-1:0][7:0]   rd_index_i,
  output gate_entry_t [Lanes-1:0] rd_entry_o
);

  gate_entry_t        mem [512];
  gate_config_t [1:0] config_q;
  logic [1:0]         loaded_q;

  always_ff @(posedge clk_i) begin
    if (wr_valid_i && !wr_header_i) mem[{wr_slot_i, wr_index_i}] <= gate_entry(wr_data_i);
    if (wr_valid_i && wr_header_i) config_q[wr_slot_i] <= gate_config(wr_data_i);
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) loaded_q <= '0;
    else if (wr_valid_i && wr_header_i) loaded_q[wr_slot_i] <= 1'b1;
  end

  assign loaded_o = loaded_q;
  assign config_o = config_q;

  for (genvar l = 0; l < Lanes; l++) begin : gen_lane
    gate_entry_t entry_q;
    always_ff @(posedge clk_i) begin
      if (rd_valid_i[l]) entry_q <= mem[{rd_slot_i[l], rd_index_i[l]}];
    end
    assign rd_entry_o[l] = entry_q;
  end

endmodule
